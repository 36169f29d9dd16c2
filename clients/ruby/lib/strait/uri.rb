# frozen_string_literal: true

require "strait/errors"

module Strait
  # The parts of strait://host:port/@store/path. Nothing is decoded. `host` has no brackets. `store` is nil for the
  # gateway's default store.
  URI = Struct.new(:host, :port, :store, :path) do
    # The first component @NAME names a store; one that begins with @@ is a directory with one @ less.
    def self.parse(text)
      URI::Parser.new(text).uri
    end

    # The address of a gateway or its store, with or without the scheme.
    def self.parse_address(text)
      uri = parse(text.include?("://") ? text : URI::Parser::SCHEME + text)
      return uri if uri.path == "/"

      raise InvalidArgument, "an address ends with the gateway or its store, and has no path: #{text}"
    end

    # HOST:PORT, as it stands in addresses.
    def authority
      "#{host.include?(":") ? "[#{host}]" : host}:#{port}"
    end

    # Parses to the same parts.
    def to_s
      return "strait://#{authority}/@#{store}#{path unless path == "/"}" if store

      "strait://#{authority}#{path.start_with?("/@") ? "/@#{path.delete_prefix("/")}" : path}"
    end
  end

  class URI
    # Parses one URI, byte by byte: its names needn't be UTF-8.
    class Parser
      SCHEME = "strait://"
      DEFAULT_PORT = 9090
      MAX_NAME_BYTES = 255 # as POSIX's NAME_MAX
      AUTHORITY = /\A(?:\[(?<literal>[^\]]+)\]|(?<name>[^\s:?#\[\]]+))(?::(?<port>[0-9]{0,5}))?\z/n

      def initialize(text)
        @text = text.b
      end

      def uri
        # The message doesn't repeat a text with an @, which may be a password's.
        shown = @text.include?("@") ? "it" : quoted(@text)
        wrong("#{shown} doesn't begin with #{SCHEME}") unless @text.start_with?(SCHEME)
        authority, *names = @text.delete_prefix(SCHEME).split("/")
        host, port = host_and_port(authority.to_s)
        names.reject!(&:empty?)
        store = store_in(names)
        [*store, *names].each { |name| check(name) }
        URI.new(utf8(host), port, store && utf8(store), utf8("/#{names.join("/")}"))
      end

      private

      def host_and_port(authority)
        wrong("an address names no user; the options take user and password") if authority.include?("@")
        parts = AUTHORITY.match(authority)
        port = parts && parts[:port].to_s.empty? ? DEFAULT_PORT : parts && parts[:port].to_i
        wrong("#{quoted(authority)} is no HOST:PORT") unless parts && port.between?(1, 65_535)
        [parts[:literal] || parts[:name], port]
      end

      # Takes the store's name off the names.
      def store_in(names)
        return unless names.first&.start_with?("@")

        name = names.shift.delete_prefix("@")
        if name.start_with?("@")
          names.unshift(name)
          return
        end
        wrong("#{quoted(@text)}: a store's name follows the @, as in /@lab; a directory called @ is /@@") if name.empty?
        name
      end

      def check(name)
        return unless [".", ".."].include?(name) || name.include?("\0") || name.bytesize > MAX_NAME_BYTES

        wrong("#{quoted(@text)} has a name that is . or .., has a NUL byte, or is longer than #{MAX_NAME_BYTES} bytes")
      end

      def wrong(why)
        raise InvalidArgument, "not the address of a gateway, strait://host:port/@store: #{why}"
      end

      def quoted(bytes)
        utf8(bytes).inspect
      end

      def utf8(bytes)
        bytes.dup.force_encoding(Encoding::UTF_8)
      end
    end
  end
end
