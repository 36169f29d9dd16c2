# frozen_string_literal: true

require "stringio"
require "strait/session"

module Strait
  # An open file to write at its end, with the methods of IO, for one thread at a time. After NoSpace and Unavailable,
  # a file of Kadoop is still open: it keeps the bytes that the gateway hasn't taken, and sends them again with the next
  # call.
  class Writer
    FLUSH = 1
    SYNC = 2

    attr_reader :path

    def initialize(session, method, path, **values)
      @session = session
      @path = path
      reply = session.change(method, path:, **values)
      @handle = reply[:handle]
      @incarnation = reply[:incarnation]
      @sent = reply[:position] || 0
      @pending = String.new
    end

    # The file's length in bytes, with all bytes written here.
    def pos
      @sent + @pending.bytesize
    end
    alias tell pos
    alias size pos

    # Writes the bytes of the objects' strings, and returns their number. A write of up to 1 MiB in all that fails has
    # taken nothing; `pos` tells what a longer one has taken.
    def write(*objects)
      ensure_open
      append(objects.map { |object| object.to_s.b }.join)
    end

    def <<(object)
      write(object)
      self
    end

    def print(*objects)
      write(*objects)
      nil
    end

    def puts(*objects)
      lines = StringIO.new("".b)
      lines.puts(*objects)
      print(lines.string)
    end

    def printf(...)
      print(format(...))
    end

    # Makes the written bytes visible to readers who open the file afterwards. In object stores it promises nothing.
    def flush
      flush_by(FLUSH)
      self
    end

    # Puts the written bytes on stable storage. In object stores it promises nothing.
    def fsync
      flush_by(SYNC)
      0
    end
    alias fdatasync fsync

    # Puts all bytes on stable storage (except in HDFS). In Kadoop, repeat it after NoSpace and Unavailable.
    def close
      return if closed?

      send_pending
      guarded { @session.change(:closeFile, about: @path, handle: @handle) }
      @is_closed = true
      nil
    end

    # Ends the file. Flushed bytes stay; other bytes may be lost.
    def abandon
      return if closed?

      @is_closed = true
      @session.tidy_change(:closeFile, handle: @handle, abandon: true)
      nil
    end

    def closed?
      @is_closed == true
    end

    # Its bytes are BINARY.
    def binmode
      self
    end

    def external_encoding
      nil
    end

    def inspect
      "#<#{self.class} #{@path}#{" (closed)" if closed?}>"
    end

    private

    def ensure_open
      raise @failure || IOError.new("closed file: #{@path}") if closed?
    end

    def append(bytes)
      chunk = @session.max_chunk_bytes
      at = 0
      while at < bytes.bytesize
        send_pending if @pending.bytesize + [bytes.bytesize - at, chunk].min > chunk
        part = bytes.byteslice(at, chunk - @pending.bytesize)
        @pending << part
        at += part.bytesize
      end
      at
    end

    def send_pending
      ensure_open
      return if @pending.empty?

      guarded do
        @session.change(:appendData, about: @path, handle: @handle, expected_offset: @sent, data: @pending)
      end
      @sent += @pending.bytesize
      @pending = String.new
    end

    def flush_by(mode)
      send_pending
      guarded { @session.query(:flushFile, about: @path, handle: @handle, mode:) }
    end

    # After NoSpace and Unavailable the file stays open; after other errors it is closed.
    def guarded
      yield
    rescue NoSpace, Unavailable
      raise
    rescue Error => e
      @is_closed = true
      is_gone = e.is_a?(Unauthenticated) || (e.is_a?(InvalidArgument) && @incarnation != @session.incarnation)
      e = OutcomeUnknown.new("the session ended while the file was written", path: @path) if is_gone
      raise @failure = e
    end
  end
end
