# frozen_string_literal: true

require "io/wait"
require "openssl"
require "socket"
require "strait/deadline"
require "strait/messages"

module Strait
  # A socket, plain or with TLS, for one caller at a time.
  class Connection
    # The connection broke: it ended, or its bytes aren't a valid reply.
    class Lost < StandardError; end
    # The deadline has passed.
    class Silent < StandardError; end

    # Number of the field deadline_ms, which each request has.
    DEADLINE_FIELD = 15
    MAX_I32 = (1 << 31) - 1
    # The most that one call of the system reads.
    READ_BYTES = 1 << 18
    # OpenSSL's messages after the gateway's alerts about the client's certificate.
    REFUSED = /alert.*(?:certificate|unknown ca)/

    # TLS names no server by its address.
    IP_ADDRESS = /\A[0-9.]+\z|:/

    # Which login attached it, and the incarnation of its session.
    attr_accessor :login, :incarnation

    # `tls` is an OpenSSL::SSL::SSLContext, or nil. If the name has several addresses, each gets a share of the time.
    def self.open(uri, tls, deadline)
      new(connect(uri, deadline), uri, tls, deadline)
    end

    def self.connect(uri, deadline)
      why = "the host name #{uri.host} has no address; check the name, or the resolver"
      found = Addrinfo.getaddrinfo(uri.host, uri.port, nil, :STREAM)
      found.each_with_index do |address, index|
        return address.connect(timeout: deadline.left / (found.size - index))
      rescue Errno::ETIMEDOUT
        why = "it doesn't accept the connection"
      rescue SystemCallError => e
        why = e.message
      end
      raise Lost, "no gateway at #{uri.authority}: #{why}"
    rescue SocketError => e
      raise Lost, "no gateway at #{uri.authority}: #{e.message}"
    end
    private_class_method :connect

    def initialize(socket, uri, tls, deadline)
      @socket = @stream = socket
      @uri = uri
      @number = 0
      @part = String.new
      @is_broken = false
      socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      secure(tls, deadline) if tls
    rescue StandardError
      close
      raise
    end

    # Not fit for another request.
    def broken?
      @is_broken
    end

    # Whether bytes to the gateway stay on this machine.
    def local?
      peer = @socket.remote_address
      peer.ipv4_loopback? || peer.ipv6_loopback?
    end

    # Whether the gateway has closed it while it was idle.
    def stale?
      !@socket.wait_readable(0).nil?
    rescue SystemCallError, IOError
      true
    end

    # Without TLS's last word, which would end the connection of a parent process, too.
    def close
      @socket.close
    end

    # One request and its result, as fields by number.
    def call(method, fields, deadline)
      @is_broken = true # until the whole reply is here
      milliseconds = (deadline.left * 1000).to_i.clamp(1, MAX_I32)
      fields = fields.merge(DEADLINE_FIELD => [Wire::I32, milliseconds])
      reply = guarded do
        send_all(Wire.request(method.name, @number += 1, fields), deadline)
        Wire.reply(receive(deadline), method.name, @number)
      end
      @is_broken = false
      raise Messages.error(reply[1]) if reply[1].is_a?(Hash)

      reply[0].is_a?(Hash) ? reply[0] : {}
    end

    private

    def secure(context, deadline)
      @stream = OpenSSL::SSL::SSLSocket.new(@socket, context)
      @stream.hostname = @uri.host unless @uri.host.match?(IP_ADDRESS)
      guarded do
        finish(deadline) { @stream.connect_nonblock(exception: false) }
        @stream.post_connection_check(@uri.host) unless context.verify_mode == OpenSSL::SSL::VERIFY_NONE
      end
    end

    # Names what broke the connection.
    def guarded
      yield
    rescue OpenSSL::SSL::SSLError => e
      raise Unauthenticated, "#{@uri.authority} and this client don't trust each other: #{e.message}" if distrust?(e)

      raise Lost, "the connection to #{@uri.authority} broke: #{e.message}"
    rescue SystemCallError, IOError, Wire::Malformed => e
      raise Lost, "the connection to #{@uri.authority} broke: #{e.message}"
    end

    def distrust?(error)
      error.message.match?(REFUSED) || error.message.match?(/certificate verify failed|does not match the server/)
    end

    def send_all(bytes, deadline)
      until bytes.empty?
        sent = finish(deadline) { @stream.write_nonblock(bytes, exception: false) }
        return if sent == bytes.bytesize

        bytes = bytes.byteslice(sent..)
      end
    end

    # A frame with its head. A gateway sends nothing behind it, since one request is in flight.
    def receive(deadline)
      bytes = String.new
      read_to(bytes, Wire::HEAD_BYTES, deadline)
      size = Wire::HEAD_BYTES + Wire.frame_bytes(bytes)
      read_to(bytes, size, deadline)
      raise Wire::Malformed, "bytes behind the reply" if bytes.bytesize > size

      bytes
    end

    # The memory grows with the bytes that arrive, and not by what the gateway claims.
    def read_to(bytes, size, deadline)
      while bytes.bytesize < size
        part = finish(deadline) { @stream.read_nonblock(READ_BYTES, @part, exception: false) }
        raise EOFError, "it ended" if part.nil?

        bytes << part
      end
    end

    # Repeats a call that doesn't block until it has a result.
    def finish(deadline)
      loop do
        raise Silent if deadline.passed?

        case (result = yield)
        when :wait_readable then @socket.wait_readable(deadline.left)
        when :wait_writable then @socket.wait_writable(deadline.left)
        else return result
        end
      end
    end
  end
end
