# frozen_string_literal: true

require "strait/wire"

module Strait
  # The messages of DfsV2 in idl/dfs.thrift that this client uses: names, numbers and types of their fields. Newer
  # gateways may send further fields, which are skipped.
  module Messages
    STORE_INFO = { name: [1, :text], uri: [2, :text], capabilities: [3, [:text]] }.freeze
    LIMITS = { max_chunk_bytes: [1, :i32] }.freeze
    FILE_INFO = {
      path: [1, :text], type: [2, :i32], length: [3, :i64], block_size: [4, :i64], replication: [5, :i16],
      modified_ms: [6, :i64], accessed_ms: [7, :i64], permission: [8, :i32], owner: [9, :text], group: [10, :text],
      link: [11, :bool]
    }.freeze
    BLOCK = {
      offset: [1, :i64], length: [2, :i64], hosts: [3, [:text]], addresses: [4, [:text]], corrupt: [5, :bool]
    }.freeze
    ERROR = { code: [1, :i32], message: [3, :text], path: [4, :text], retry_safe: [5, :bool] }.freeze

    # Fields of any request.
    COMMON = { request_id: [2, :bytes], is_retry: [3, :bool], deadline_ms: [15, :i32] }.freeze
    REQUESTS = {
      openSession: {
        version: [1, :i32], store: [2, :text], user: [3, :text], password: [4, :text], token: [5, :text]
      },
      closeSession: {},
      getFileInfo: { path: [2, :text] },
      listDirectory: { path: [2, :text], cursor: [3, :i64], max_entries: [4, :i32] },
      getBlockLocations: { path: [2, :text], offset: [3, :i64], length: [4, :i64] },
      getChecksum: { path: [2, :text] },
      getStoreStatus: {},
      openFile: { path: [2, :text] },
      readRange: { handle: [2, :i64], offset: [3, :i64], length: [4, :i32] },
      createFile: {
        path: [4, :text], overwrite: [5, :bool], permission: [6, :i32], replication: [7, :i16], block_size: [8, :i64],
        min_replicas: [9, :i16]
      },
      appendFile: { path: [4, :text] },
      appendData: { handle: [4, :i64], expected_offset: [5, :i64], data: [6, :bytes] },
      flushFile: { handle: [2, :i64], mode: [3, :i32] },
      closeFile: { handle: [4, :i64], abandon: [5, :bool] },
      truncateFile: { path: [4, :text], length: [5, :i64] },
      makeDirectories: { path: [4, :text], permission: [5, :i32] },
      renamePath: { source: [4, :text], target: [5, :text], replace: [6, :bool] },
      removePath: { path: [4, :text], recursive: [5, :bool] },
      setAttributes: {
        path: [4, :text], permission: [5, :i32], owner: [6, :text], group: [7, :text], modified_ms: [8, :i64],
        accessed_ms: [9, :i64], replication: [10, :i16]
      },
      concatFiles: { path: [4, :text], sources: [5, [:text]] }
    }.freeze
    WRITER = { handle: [1, :i64], position: [2, :i64] }.freeze
    REPLIES = {
      openSession: {
        token: [1, :text], user: [3, :text], store: [4, STORE_INFO], limits: [6, LIMITS], incarnation: [7, :i64]
      },
      getFileInfo: { info: [1, FILE_INFO] },
      listDirectory: { entries: [1, [FILE_INFO]], cursor: [2, :i64] },
      getBlockLocations: { blocks: [1, [BLOCK]] },
      getChecksum: { algorithm: [1, :text], value: [2, :bytes] },
      getStoreStatus: { capacity: [2, :i64], used: [3, :i64], remaining: [4, :i64], settling: [5, :bool] },
      openFile: { handle: [1, :i64], length: [2, :i64], identity: [3, :bytes] },
      readRange: { data: [1, :bytes] },
      createFile: WRITER,
      appendFile: WRITER
    }.freeze

    WIRE_TYPES = {
      bool: Wire::BOOL, i16: Wire::I16, i32: Wire::I32, i64: Wire::I64, text: Wire::BINARY, bytes: Wire::BINARY
    }.freeze
    BITS = { i16: 16, i32: 32, i64: 64 }.freeze
    # Encodings whose bytes may be UTF-8. Paths from the command line may be US-ASCII with other bytes.
    LIKE_UTF8 = [Encoding::UTF_8, Encoding::BINARY, Encoding::US_ASCII].freeze

    class << self
      # The fields of a request for Wire, from values by name. A nil isn't sent.
      def request(method, values)
        schema = REQUESTS.fetch(method)
        values.compact.to_h do |name, value|
          number, type = schema[name] || COMMON.fetch(name)
          next [number, [Wire::LIST, value.map { |item| checked(name, type.first, item) }]] if type.is_a?(Array)

          [number, [WIRE_TYPES.fetch(type), checked(name, type, value)]]
        end
      end

      # The values by name of a method's result.
      def reply(method, fields)
        named(REPLIES.fetch(method, {}), fields)
      end

      # The exception for a DfsError.
      def error(fields)
        told = named(ERROR, fields)
        message = told[:message] || "the gateway names no cause"
        Error.of_code(told[:code]).new(message, path: told[:path], retry_safe: told[:retry_safe] == true)
      end

      private

      def checked(name, type, value)
        case type
        when :text then text(name, value)
        when :bytes, :bool then value
        else
          half = 1 << (BITS.fetch(type) - 1)
          raise InvalidArgument, "#{name}: #{value.inspect} isn't an integer" unless value.is_a?(Integer)
          raise InvalidArgument, "#{name}: #{value} is out of range" unless value >= -half && value < half

          value
        end
      end

      def text(name, value)
        value = value.to_path if value.respond_to?(:to_path)
        raise InvalidArgument, "#{name}: #{value.inspect} isn't a string" unless value.is_a?(String)

        value = value.dup.force_encoding(Encoding::UTF_8) if LIKE_UTF8.include?(value.encoding)
        raise InvalidArgument, "#{name}: #{value.inspect} isn't UTF-8" unless value.valid_encoding?

        value.encode(Encoding::UTF_8)
      rescue EncodingError => e
        raise InvalidArgument, "#{name}: #{e.message}"
      end

      # A field of another type than expected counts as absent, as in Thrift's own decoders.
      def named(schema, fields)
        schema.to_h { |name, (number, type)| [name, native(type, fields[number])] }.compact
      end

      def native(type, value)
        case type
        when :text then value.force_encoding(Encoding::UTF_8) if value.is_a?(String)
        when :bytes then value if value.is_a?(String)
        when :bool then value if [true, false].include?(value)
        when Hash then named(type, value) if value.is_a?(Hash)
        when Array then value.filter_map { |item| native(type.first, item) } if value.is_a?(Array)
        else value if value.is_a?(Integer)
        end
      end
    end
  end
end
