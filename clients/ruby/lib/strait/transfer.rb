# frozen_string_literal: true

require "fileutils"
require "securerandom"
require "strait/errors"

module Strait
  # Copies between local and remote files. The copy gets its name only when it is complete.
  module Transfer
    COPY_BYTES = 1 << 20

    # Copies a remote file to a local one; in a directory it gets its own name.
    def get(source, target, replace: false)
      target = File.join(target, File.basename(source)) if File.directory?(target)
      is_free = replace || !File.exist?(target)
      raise AlreadyExists.new("the local file exists; pass replace: true", path: target) unless is_free

      temporary = File.join(File.dirname(target), ".strait-get-#{SecureRandom.hex(8)}")
      begin
        self.open(source, "rb") do |file|
          File.open(temporary, File::WRONLY | File::CREAT | File::EXCL | File::BINARY) { |copy| transfer(file, copy) }
        end
        File.rename(temporary, target)
      rescue SystemCallError => e
        raise e.class, target # nobody knows the temporary name
      ensure
        FileUtils.rm_f(temporary)
      end
      nil
    end

    # Copies a local file to a remote one; in a directory it gets its own name. It has the gateway's permissions.
    def put(source, target, replace: false)
      target, there = put_target(source, target)
      raise AlreadyExists.new("the path is taken; pass replace: true", path: target) if there && !replace
      raise IsADirectory.new("the target is a directory", path: target) if there&.directory?

      temporary = File.join(File.dirname(target), ".strait-put-#{SecureRandom.hex(8)}")
      named_by(temporary, target) do
        File.open(source, "rb") do |file|
          self.open(temporary, "wx") { |copy| transfer(file, copy) }
        end
        can_replace = store.capabilities.include?("rename_replace")
        remove(target) if there && !can_replace
        rename(temporary, target, replace: replace && can_replace)
      end
    end

    private

    def transfer(from, to)
      while (bytes = from.read(COPY_BYTES))
        to.write(bytes)
      end
    end

    # The path to write, and what is there.
    def put_target(source, target)
      there = stat_or_nil(target)
      return [target, there] unless there&.directory?

      target = "#{target.delete_suffix("/")}/#{File.basename(source)}"
      [target, stat_or_nil(target)]
    end

    def stat_or_nil(path)
      stat(path)
    rescue NotFound
      nil
    end

    # Removes the temporary file after an error. Errors name the target: nobody knows the temporary name.
    def named_by(temporary, target)
      yield
    rescue Exception => e
      @session.tidy_change(:removePath, path: temporary)
      raise unless e.is_a?(Error) && e.path == temporary

      raise e.class.new(e.message.gsub(temporary, target), path: target, retry_safe: e.retry_safe?)
    end
  end
end
