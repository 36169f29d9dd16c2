# frozen_string_literal: true

module Strait
  # Lines of a Reader, as IO reads them.
  module Lines
    include Enumerable

    # UTF-8's longest character has 4 bytes.
    MAX_TRAILING_BYTES = 3

    # Reads a line, to the separator or the limit of bytes; nil at the end of the file. A separator of nil stands for
    # the end of the file.
    def gets(separator = $/, limit = nil, chomp: false)
      return gets($/, separator, chomp:) if separator.is_a?(Integer)
      raise ArgumentError, "reading by paragraphs isn't supported" if separator == ""
      return +"" if limit&.zero?

      line = line_bytes(separator&.b, limit)
      return if line.empty?

      line.force_encoding(external_encoding)
      line = line.chomp(separator) if chomp && separator
      line
    end

    # As `gets`, with an EOFError at the end of the file.
    def readline(...)
      gets(...) || raise(EOFError, "end of file reached")
    end

    # Yields each line. Without a block, it returns an Enumerator.
    def each_line(...)
      return enum_for(:each_line, ...) unless block_given?

      while (line = gets(...))
        yield line
      end
      self
    end
    alias each each_line

    # All lines that are left.
    def readlines(...)
      each_line(...).to_a
    end

    private

    def line_bytes(separator, limit)
      line = String.new
      while (part = ahead(limit && (limit - line.bytesize)))
        stop = separator && line_end(line, part, separator)
        line << part.byteslice(0, stop || part.bytesize)
        skip(stop || part.bytesize)
        break if stop || (limit && line.bytesize >= limit)
      end
      limit ? whole_characters(line) : line
    end

    # Where the line ends in the part; its separator may have begun in the line.
    def line_end(line, part, separator)
      before = [line.bytesize, separator.bytesize - 1].min
      if before.positive?
        edge = line.byteslice(-before, before) + part.byteslice(0, separator.bytesize - 1)
        found = edge.index(separator)
        return found + separator.bytesize - before if found
      end
      found = part.index(separator)
      found && (found + separator.bytesize)
    end

    # A limit doesn't cut a character.
    def whole_characters(line)
      MAX_TRAILING_BYTES.times do
        break if line.dup.force_encoding(external_encoding).valid_encoding?

        part = ahead(1)
        break unless part

        line << part
        skip(1)
      end
      line
    end
  end
end
