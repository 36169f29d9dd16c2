# frozen_string_literal: true

module Strait
  # A failed operation. Each kind is a class of its own. `rescue` also takes it for the error that Ruby's own files
  # raise: `rescue Errno::ENOENT` rescues NotFound.
  class Error < StandardError
    # The remote path, or nil.
    attr_reader :path

    def initialize(message = nil, path: nil, retry_safe: false)
      @path = path&.to_s&.dup&.force_encoding(Encoding::UTF_8)
      @retry_safe = retry_safe
      message = (message || self.class.name).to_s
      super(@path.nil? || @path.empty? || message.include?(@path) ? message : "#{@path}: #{message}")
    end

    # Repeating the same request can help, and can do no harm.
    def retry_safe?
      @retry_safe
    end

    # The kind as a symbol: :not_found for NotFound.
    def kind
      self.class.name[/\w+\z/].gsub(/(?<=.)[A-Z]/, '_\0').downcase.to_sym
    end

    # The number by which `rescue` compares this error with the classes of Errno.
    def errno
      self.class.native&.const_get(:Errno)
    end

    @by_code = {}

    class << self
      # The class of Errno that stands for this kind, or nil.
      attr_reader :native

      # A newer gateway's code is Internal.
      def of_code(code)
        @by_code.fetch(code, Internal)
      end

      # Makes the class of a kind.
      def define(code, native = nil)
        @by_code[code] = Class.new(self) { @native = native }
      end
    end
  end

  # The codes are those of ErrorCode in idl/dfs.thrift.

  NotFound = Error.define(1, Errno::ENOENT)
  # The path is taken, and the operation may not replace it.
  AlreadyExists = Error.define(2, Errno::EEXIST)
  # A directory was needed; the path, or a parent of it, is a file.
  NotADirectory = Error.define(3, Errno::ENOTDIR)
  # A file was needed; the path is a directory.
  IsADirectory = Error.define(4, Errno::EISDIR)
  # The directory still has entries.
  NotEmpty = Error.define(5, Errno::ENOTEMPTY)
  PermissionDenied = Error.define(6, Errno::EACCES)
  # Nobody is logged in, or a login or a certificate is wrong.
  Unauthenticated = Error.define(7, Errno::EPERM)
  # The request itself is wrong: path, offset, length, state of a file.
  InvalidArgument = Error.define(8, Errno::EINVAL)
  # The store has no such operation.
  Unsupported = Error.define(9, Errno::ENOTSUP)
  # Another client has what is needed, or a limit is reached.
  Busy = Error.define(10, Errno::EBUSY)
  # The store, or the user's quota, is full.
  NoSpace = Error.define(11, Errno::ENOSPC)
  # No answer within the time limit.
  TimedOut = Error.define(12, Errno::ETIMEDOUT)
  # The gateway or its store can't be reached.
  Unavailable = Error.define(13, Errno::EHOSTUNREACH)
  # Stored bytes are damaged.
  Corrupt = Error.define(14, Errno::EIO)
  # The change may have been executed.
  OutcomeUnknown = Error.define(15, Errno::EIO)
  # An error in the gateway.
  Internal = Error.define(16, Errno::EIO)
end
