# frozen_string_literal: true

module Strait
  # A session's store. `capabilities` are names, such as "append".
  Store = Struct.new(:name, :uri, :capabilities, keyword_init: true)

  # A file or directory. `size` is in bytes, `mtime` and `atime` are Times, `permission` has the bits, 07777 at most.
  Stat = Struct.new(:path, :type, :size, :block_size, :replication, :mtime, :atime, :permission, :owner, :group, :link,
                    keyword_init: true) do
    def self.of(info)
      new(
        path: info[:path] || "", type: info[:type] == 2 ? :directory : :file, size: info[:length] || 0,
        block_size: info[:block_size] || 0, replication: info[:replication] || 0,
        mtime: Time.at(0, info[:modified_ms] || 0, :millisecond), atime: Time.at(0, info[:accessed_ms] || 0, :millisecond),
        permission: info[:permission] || 0, owner: info[:owner] || "", group: info[:group] || "", link: info[:link] == true
      )
    end

    # The path's last part.
    def name
      File.basename(path)
    end

    def directory?
      type == :directory
    end

    def file?
      type == :file
    end

    # Whether the name is a symbolic link: all else is about its target. Only listings tell it.
    def link?
      link
    end
  end

  # Where a part of a file lies: its bytes from `offset` are on `hosts`.
  Block = Struct.new(:offset, :length, :hosts, :addresses, :corrupt, keyword_init: true)

  # A store's own checksum of a file. Values compare under the same algorithm only.
  Checksum = Struct.new(:algorithm, :value, keyword_init: true)

  # The bytes of a whole store.
  Status = Struct.new(:capacity, :used, :remaining, keyword_init: true)
end
