# frozen_string_literal: true

require "strait/lines"
require "strait/session"

module Strait
  # An open file to read, with the methods of IO. One thread at a time reads on; `pread` serves any number of threads.
  class Reader
    include Lines

    # The path; and the file's length in bytes, when it was opened.
    attr_reader :path, :size
    # The position of the next byte.
    attr_reader :pos
    alias tell pos
    alias length size
    # That of lines, and of a `read` to the end. Other bytes are BINARY.
    attr_reader :external_encoding

    def initialize(session, path, encoding)
      @session = session
      @path = path
      @external_encoding = encoding
      @reopening = Mutex.new
      @ahead = "".b # one request's bytes, which serve small reads
      @ahead_at = @pos = 0
      open
    end

    # Reads up to this many bytes, fewer only at the end of the file, and nil there. Without a length: all to the end.
    def read(length = nil, buffer = nil)
      raise ArgumentError, "negative length #{length} given" if length&.negative?

      bytes = String.new
      while length.nil? || bytes.bytesize < length
        part = ahead(length && (length - bytes.bytesize)) or break
        # Without a copy, if this is all.
        bytes = bytes.empty? && part.bytesize == length ? part : bytes << part
        skip(part.bytesize)
      end
      bytes = (buffer || +"").replace(bytes) if buffer || bytes.frozen?
      return bytes.force_encoding(@external_encoding) unless length

      bytes unless bytes.empty? && length.positive?
    end

    # Reads what one request brings, up to this many bytes; an EOFError at the end of the file.
    def readpartial(length, buffer = nil)
      raise ArgumentError, "negative length #{length} given" if length.negative?

      part = length.zero? ? "".b : ahead(length)
      raise EOFError, "end of file reached" unless part

      skip(part.bytesize)
      buffer ? buffer.replace(part) : part
    end

    # Reads up to this many bytes at an offset, fewer only at the file's end; an EOFError there. The position stays.
    def pread(length, offset, buffer = nil)
      raise InvalidArgument.new("a negative offset or length", path: @path) if length.negative? || offset.negative?

      bytes = String.new
      while bytes.bytesize < length
        part = fetch(offset + bytes.bytesize, length - bytes.bytesize)
        break if part.empty?

        bytes << part
      end
      raise EOFError, "end of file reached" if bytes.empty? && length.positive?

      buffer ? buffer.replace(bytes) : bytes
    end

    # Moves the position, from IO::SEEK_SET, IO::SEEK_CUR or IO::SEEK_END, or the symbols :SET, :CUR, :END.
    def seek(offset, whence = IO::SEEK_SET)
      from = { IO::SEEK_SET => 0, SET: 0, IO::SEEK_CUR => @pos, CUR: @pos, IO::SEEK_END => @size, END: @size }
      target = offset + from.fetch(whence) { raise ArgumentError, "unknown whence: #{whence.inspect}" }
      raise InvalidArgument.new("a position before the file's beginning", path: @path) if target.negative?

      @pos = target
      0
    end

    def pos=(offset)
      seek(offset)
    end

    def rewind
      seek(0)
    end

    def eof?
      ahead(1).nil?
    end
    alias eof eof?

    def binmode
      @external_encoding = Encoding::BINARY
      self
    end

    def close
      return if @is_closed

      @is_closed = true
      @session.tidy(:closeFile, handle: @handle)
    end
    alias abandon close

    def closed?
      @is_closed == true
    end

    def inspect
      "#<#{self.class} #{@path}#{" (closed)" if closed?}>"
    end

    private

    # The bytes at the position, up to this many; nil at the end of the file.
    def ahead(length)
      raise IOError, "closed file: #{@path}" if closed?

      from = @pos - @ahead_at
      unless from >= 0 && from < @ahead.bytesize
        @ahead = fetch(@pos, Session::MAX_CHUNK_BYTES)
        @ahead_at = @pos
        from = 0
      end
      @ahead.byteslice(from, length || @ahead.bytesize) unless @ahead.empty?
    end

    def skip(length)
      @pos += length
    end

    # A handle ends with its session: then the file is opened again.
    def fetch(offset, length)
      raise IOError, "closed file: #{@path}" if closed?

      handle = @handle
      range(handle, offset, length)
    rescue InvalidArgument, NotFound, Unauthenticated => e
      @reopening.synchronize do
        if handle == @handle
          raise if @incarnation == @session.incarnation && !e.is_a?(NotFound)

          reopen
        end
      end
      range(@handle, offset, length)
    end

    def range(handle, offset, length)
      length = [length, @session.max_chunk_bytes].min
      @session.query(:readRange, about: @path, handle:, offset:, length:)[:data] || "".b
    end

    def open
      reply = @session.query(:openFile, path: @path)
      @handle = reply[:handle]
      @size = reply[:length] || 0
      @identity = reply[:identity]
      @incarnation = reply[:incarnation]
    end

    # The bytes of two files would be mixed otherwise. If another file is there, this one stays unusable.
    def reopen
      before = [@handle, @size, @identity, @incarnation]
      open
      is_other = before[2] && @identity && before[2] != @identity
      return unless is_other || @size < before[1]

      @session.tidy(:closeFile, handle: @handle)
      @handle, @size, @identity, @incarnation = before
      raise Unavailable.new("the file was replaced while it was read", path: @path)
    end
  end
end
