# frozen_string_literal: true

require "strait/reader"
require "strait/records"
require "strait/transfer"
require "strait/uri"
require "strait/version"
require "strait/writer"

module Strait
  # The files of one store behind a gateway, for any number of threads. Paths are absolute within the store. A failed
  # operation raises an Error.
  class Client
    include Transfer

    # Beside `rb` and `r`, which read.
    WRITING = {
      "w" => [:createFile, { overwrite: true }], "wx" => [:createFile, { overwrite: false }], "a" => [:appendFile, {}]
    }.freeze

    # Opens a session. The address is strait://host:port/ or host:port; /@NAME after it names a store.
    #
    # * store: a store of the gateway; without it, the default store
    # * user:, password: or token: the login; `token` is that of an earlier session
    # * tls: true, or parameters for OpenSSL::SSL::SSLContext#set_params, such as { ca_file: "ca.pem" }, or a context
    # * timeout: bounds each request as a whole, in seconds: connecting, all attempts, and the complete reply
    def initialize(address, store: nil, user: nil, password: nil, token: nil, tls: nil, timeout: 120)
      uri = URI.parse_address(address)
      if uri.store && store && uri.store != store
        raise InvalidArgument, "two stores are named: #{uri.store} and #{store}"
      end

      uri.store ||= store
      login = Session::Login.new(store: uri.store, user:, password:, token:)
      @session = Session.new(uri, login, tls_context(tls), timeout)
    end

    # The user of the session.
    def user
      @session.user
    end

    # Stands for the login until it expires; keep it secret.
    def token
      @session.token
    end

    def store
      told = @session.store
      Store.new(name: told[:name] || "", uri: told[:uri] || "", capabilities: told[:capabilities] || [])
    end

    # Ends the session; close its files first.
    def close
      @session.close
    end

    def inspect
      "#<#{self.class} #{@session.uri}>"
    end

    # Opens a file. The modes are those of File:
    #
    # * r: reads; the result is a Reader
    # * w: makes a file, or replaces one; the result is a Writer
    # * wx: makes a file, and fails if the path is taken
    # * a: writes at the end of a file, which must exist
    #
    # With b, lines and whole contents are BINARY; else they have the encoding, or Ruby's external one. Missing parents
    # are made. With a block, the file is closed after it. If the block raises an error, the file is abandoned.
    def open(path, mode = "r", permission: nil, replication: nil, block_size: nil, min_replicas: nil, encoding: nil,
             &block)
      plain = mode.delete("b")
      method, values = WRITING[plain]
      raise ArgumentError, "unknown mode #{mode.inspect}; use r, w, wx or a" unless method || plain == "r"

      if method == :createFile
        values = { **values, permission:, replication:, block_size:,
                             min_replicas: }
      end
      encoding ||= mode == plain ? Encoding.default_external : Encoding::BINARY
      file = method ? Writer.new(@session, method, path, **values) : Reader.new(@session, path, Encoding.find(encoding))
      block ? use(file, &block) : file
    end

    # A file's whole contents, in Ruby's external encoding.
    def read(path, encoding: nil)
      self.open(path, "r", encoding:, &:read)
    end

    # A file's whole contents, as bytes.
    def binread(path)
      self.open(path, "rb", &:read)
    end

    # Makes or replaces a file. Returns the number of bytes.
    def write(path, data)
      self.open(path, "w") { |file| file.write(data) }
    end

    def stat(path)
      info = @session.query(:getFileInfo, path:)[:info]
      Stat.of(info || raise(Internal.new("the gateway's reply has no status", path:)))
    end

    def exist?(path)
      stat(path)
      true
    rescue NotFound, NotADirectory
      false
    end

    # Yields a directory's entries as Stats, in the store's order; fetched page by page. Without a block, it returns an
    # Enumerator.
    def list(path, page_entries: nil)
      return enum_for(:list, path, page_entries:) unless block_given?

      page = @session.query(:listDirectory, path:, max_entries: page_entries)
      incarnation = page[:incarnation]
      loop do
        cursor = page[:cursor]
        entries(page, path).each { |entry| yield entry }
        break unless cursor

        page = next_page(path, cursor, page_entries, incarnation)
      end
    ensure
      @session.tidy(:closeFile, handle: page[:cursor]) if page && page[:cursor]
    end

    # The Blocks that hold a range of a file; to its end without a length.
    def locate(path, offset = 0, length = nil)
      reply = @session.query(:getBlockLocations, path:, offset:, length:)
      reply.fetch(:blocks, []).map do |block|
        Block.new(offset: 0, length: 0, hosts: [], addresses: [], corrupt: false, **block)
      end
    end

    def checksum(path)
      reply = @session.query(:getChecksum, path:)
      Checksum.new(algorithm: reply[:algorithm] || "", value: reply[:value] || "".b)
    end

    def status
      reply = @session.query(:getStoreStatus)
      Status.new(capacity: reply[:capacity] || 0, used: reply[:used] || 0, remaining: reply[:remaining] || 0)
    end

    # Makes a directory and its missing parents; an existing one is success.
    def mkdir_p(path, permission: nil)
      @session.change(:makeDirectories, path:, permission:)
      nil
    end

    # Renames a file or directory; with `replace`, a file at the target is replaced.
    def rename(source, target, replace: false)
      @session.change(:renamePath, source:, target:, replace:)
      nil
    end

    # Removes a file or an empty directory; with `recursive`, all that is in it, too.
    def remove(path, recursive: false)
      @session.change(:removePath, path:, recursive:)
      nil
    end

    # Sets attributes; those that are nil stay. `mtime` and `atime` are Times.
    def set_attributes(path, permission: nil, owner: nil, group: nil, mtime: nil, atime: nil, replication: nil)
      @session.change(:setAttributes, path:, permission:, owner:, group:,
                                      modified_ms: milliseconds(mtime), accessed_ms: milliseconds(atime),
                                      replication:)
      nil
    end

    # Cuts a closed file to this many bytes.
    def truncate(path, length)
      @session.change(:truncateFile, path:, length:)
      nil
    end

    # Moves the sources' bytes, in order, to the end of a closed file, in one step.
    def concat(path, sources)
      @session.change(:concatFiles, path:, sources:)
      nil
    end

    private

    def tls_context(tls)
      return tls || nil if !tls || tls.is_a?(OpenSSL::SSL::SSLContext)

      context = OpenSSL::SSL::SSLContext.new
      context.set_params(tls == true ? {} : tls)
      context.verify_hostname = false # the connection does, which knows addresses, too
      context.setup # reads the files
      context
    rescue OpenSSL::SSL::SSLError => e
      files = tls.is_a?(Hash) ? tls.values_at(:ca_file, :ca_path).compact : []
      reading = "can't read certificates from #{files.join(" or ")}: " if files.any? # the message names none
      raise InvalidArgument, "tls: #{reading}#{e.message}"
    end

    def use(file)
      yield file
    rescue Exception
      # Half a file doesn't get the looks of a whole one.
      file.abandon
      raise
    ensure
      begin
        file.close
      ensure
        file.abandon
      end
    end

    # The cursor moves with each answer, so the request isn't repeated.
    def next_page(path, cursor, page_entries, incarnation)
      @session.once(:listDirectory, path:, cursor:, max_entries: page_entries)
    rescue InvalidArgument, Unauthenticated => e
      raise if e.is_a?(InvalidArgument) && @session.incarnation == incarnation

      raise Unavailable.new("the session ended during the listing; list again", path:, retry_safe: true)
    end

    # A page's Stats. Programs join their names to paths of their own.
    def entries(page, path)
      found = page.fetch(:entries, []).map { |entry| Stat.of(entry) }
      if found.empty? && page[:cursor]
        raise Internal.new("list: the gateway sent an empty page that isn't the last (a defect of the gateway)", path:)
      end

      listed = Messages.request(:listDirectory, { path: })[2].last # as it was sent
      stray = found.find { |entry| !child?(entry.path, listed) }
      return found unless stray

      raise Internal.new("list #{listed}: the gateway named #{stray.path}, which isn't in this directory", path:)
    end

    # Whether an entry's path is one of a directory's entries.
    def child?(entry, directory)
      parent, slash, name = entry.b.rpartition("/")
      names = ->(path) { path.b.split("/").reject(&:empty?) }
      !slash.empty? && parent == names.call(directory).map { |one| "/#{one}" }.join &&
        !["", ".", ".."].include?(name) && !name.include?("\0")
    end

    def milliseconds(time)
      time && (time.to_r * 1000).round
    end
  end
end
