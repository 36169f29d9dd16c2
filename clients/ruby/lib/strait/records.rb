# frozen_string_literal: true

module Strait
  # A session's store. `capabilities` are names, such as "append".
  Store = Struct.new(:name, :uri, :capabilities, keyword_init: true)

  # FileType in idl/dfs.thrift.
  DIRECTORY = 2
  private_constant :DIRECTORY

  # A file or directory. `size` is in bytes, `mtime` and `atime` are Times, `permission` has the bits, 07777 at most.
  Stat = Struct.new(:path, :type, :size, :block_size, :replication, :mtime, :atime, :permission, :owner, :group, :link,
                    keyword_init: true) do
    def self.of(info)
      known = Hash.new(0).merge(info)
      new(
        path: info[:path] || "", type: info[:type] == DIRECTORY ? :directory : :file, size: known[:length],
        block_size: known[:block_size], replication: known[:replication], permission: known[:permission],
        mtime: Time.at(0, known[:modified_ms], :millisecond), atime: Time.at(0, known[:accessed_ms], :millisecond),
        owner: info[:owner] || "", group: info[:group] || "", link: info[:link] == true
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
