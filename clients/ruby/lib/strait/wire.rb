# frozen_string_literal: true

require "strait/errors"

module Strait
  # Thrift's binary protocol, strict, in frames. A struct to send is {number => [type, value]}; a received one is
  # {number => value}.
  module Wire
    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    BINARY = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15

    # The longest reply that a gateway may claim.
    MAX_FRAME_BYTES = 16 << 20
    # The deepest reply of idl/dfs.thrift has four levels.
    MAX_DEPTH = 16
    # Of a reply's structs and items. A page of a listing has some thousand.
    MAX_VALUES = 1 << 18
    VERSION = 0x8001_0000
    CALL = 1
    EXCEPTION = 3
    # A frame's length comes first.
    HEAD_BYTES = 4

    # The bytes aren't a valid reply.
    class Malformed < StandardError; end

    class << self
      # The frame of a call.
      def request(method, number, fields)
        frame = [0, VERSION | CALL, method.bytesize, method, number, STRUCT, 1].pack("NNNa*NCn")
        write_struct(frame, fields)
        frame << STOP
        frame[0, HEAD_BYTES] = [frame.bytesize - HEAD_BYTES].pack("N")
        frame
      end

      # The length of a frame, by its head.
      def frame_bytes(head)
        size = head.unpack1("N")
        raise Malformed, "a reply of #{size} bytes" if size > MAX_FRAME_BYTES

        size
      end

      # The fields of a reply, whose frame begins at HEAD_BYTES: 0 is the result, 1 the error.
      def reply(bytes, method, number)
        decoder = Decoder.new(bytes, HEAD_BYTES)
        head = decoder.u32
        name = decoder.bytes
        raise Malformed, "no reply of Thrift's" unless head & 0xffff_0000 == VERSION
        raise Malformed, "a reply to another request" unless decoder.u32 == number

        fields = decoder.struct
        raise Malformed, "a reply that doesn't end with its frame" unless decoder.end?
        raise Internal, "the gateway refuses #{method}: #{refusal(fields)}" if head & 0xff == EXCEPTION
        raise Malformed, "a reply to another method" unless name == method

        fields
      end

      private

      def refusal(fields)
        fields[1].is_a?(String) ? fields[1].dup.force_encoding(Encoding::UTF_8).scrub : "without a message"
      end

      def write_struct(target, fields)
        fields.each do |number, (type, value)|
          target << [type, number].pack("Cn")
          write_value(target, type, value)
        end
        target << STOP
      end

      def write_value(target, type, value)
        case type
        when BOOL then target << (value ? 1 : 0)
        when I16 then target << [value].pack("s>")
        when I32 then target << [value].pack("l>")
        when I64 then target << [value].pack("q>")
        when BINARY then target << [value.bytesize].pack("N") << value.b
        when LIST # of strings: no request has others
          target << [BINARY, value.size].pack("CN")
          value.each { |item| write_value(target, BINARY, item) }
        else raise ArgumentError, "type #{type}"
        end
      end
    end

    # Reads values within a frame. It checks each length against what is left before it allocates.
    class Decoder
      INTEGERS = { BYTE => [1, "c"], I16 => [2, "s>"], I32 => [4, "l>"], I64 => [8, "q>"], DOUBLE => [8, "q>"] }.freeze

      def initialize(frame, at = 0)
        @frame = frame
        @at = at
        @values = 0
      end

      def end?
        @at == @frame.bytesize
      end

      def u32
        @frame.unpack1("N", offset: take(4))
      end

      def bytes
        length = u32
        @frame.byteslice(take(length), length)
      end

      def struct(depth = 0)
        count(1)
        fields = {}
        while (type = byte) != STOP
          number = integer(I16)
          fields[number] = value(type, depth + 1)
        end
        fields
      end

      private

      # Structs and items take far more memory than bytes.
      def count(more)
        @values += more
        raise Malformed, "a reply with too many values" if @values > MAX_VALUES
      end

      def left
        @frame.bytesize - @at
      end

      # The place of the next bytes.
      def take(length)
        raise Malformed, "a reply with a wrong length" if length > left

        at = @at
        @at += length
        at
      end

      def byte
        @frame.getbyte(take(1))
      end

      def integer(type)
        length, format = INTEGERS.fetch(type)
        @frame.unpack1(format, offset: take(length))
      end

      def value(type, depth)
        raise Malformed, "a reply that is too deep" if depth > MAX_DEPTH

        case type
        when BOOL then byte != 0
        when BYTE, I16, I32, I64, DOUBLE then integer(type)
        when BINARY then bytes
        when STRUCT then struct(depth)
        when LIST, SET then items([byte], depth)
        when MAP then items([byte, byte], depth) # no message has maps; a newer gateway's are skipped
        else raise Malformed, "a reply with a field of an unknown type"
        end
      end

      def items(types, depth)
        length = u32
        # Each item takes a byte or more.
        raise Malformed, "a reply with a wrong length" if length * types.size > left

        count(length * types.size)
        Array.new(length) { types.map { |type| value(type, depth + 1) } }.flatten(1)
      end
    end
  end
end
