# frozen_string_literal: true

# Answers the requests of tests/languages/driver.py.

require "strait"

# Parts of a message: each has its length before it.
class Pipe
  def initialize(input, output)
    @input = input.binmode
    @output = output.binmode
  end

  # The next message, or nil.
  def read
    count = number or return
    Array.new(count) { @input.read(number) }
  end

  def write(parts)
    @output.write([parts.size].pack("N"), *parts.flat_map { |part| [[part.bytesize].pack("N"), part] })
    @output.flush
  end

  private

  def number
    @input.read(4)&.unpack1("N")
  end
end

# A public method for each operation.
class Driver
  MODES = { "read" => "rb", "create" => "wxb", "overwrite" => "wb", "append" => "ab" }.freeze

  def initialize
    @clients = {}
    @files = {}
  end

  def answer(operation, arguments)
    ["ok", *Array(public_send("on_#{operation}", *arguments))].map { |part| spelled(part) }
  rescue Strait::Error => e
    ["error", e.class.name[/\w+\z/], e.path.to_s, e.message, e.class.name]
  end

  def on_connect(name, address, timeout_ms)
    @client = @clients[name] = Strait.connect(text(address), timeout: Integer(timeout_ms) / 1000.0)
    @client.store.capabilities.join(",")
  end

  def on_use(name)
    @client = @clients.fetch(name)
    nil
  end

  def on_disconnect(name)
    @clients.delete(name).close
  end

  def on_open(name, path, mode, permission)
    @files[name] = @client.open(text(path), MODES.fetch(mode), permission: number(permission))
    nil
  end

  def on_read(name, length)
    length = Integer(length)
    length.negative? ? @files.fetch(name).read : @files.fetch(name).read(length) || ""
  end

  def on_pread(name, offset, length)
    @files.fetch(name).pread(Integer(length), Integer(offset))
  rescue EOFError
    ""
  end

  def on_write(name, bytes)
    @files.fetch(name).write(bytes)
    nil
  end

  def on_position(name)
    @files.fetch(name).pos
  end

  def on_flush(name)
    @files.fetch(name).flush
    nil
  end

  def on_sync(name)
    @files.fetch(name).fsync
    nil
  end

  def on_close(name)
    @files.fetch(name).close
    @files.delete(name)
    nil
  end

  def on_stat(path)
    stat = @client.stat(text(path))
    times = [stat.mtime, stat.atime].map { |time| (time.to_r * 1000).to_i }
    [stat.type, stat.size, stat.permission, stat.replication, *times]
  end

  def on_exists(path)
    @client.exist?(text(path))
  end

  def on_list(path, page_entries)
    @client.list(text(path), page_entries: number(page_entries)).map(&:name)
  end

  def on_mkdirs(path, permission)
    @client.mkdir_p(text(path), permission: number(permission))
  end

  def on_rename(source, target, replace)
    @client.rename(text(source), text(target), replace: replace == "1")
  end

  def on_remove(path, recursive)
    @client.remove(text(path), recursive: recursive == "1")
  end

  def on_attributes(path, permission, replication, modified_ms, accessed_ms)
    @client.set_attributes(text(path), permission: number(permission), replication: number(replication),
                                       mtime: time(modified_ms), atime: time(accessed_ms))
  end

  def on_truncate(path, length)
    @client.truncate(text(path), Integer(length))
  end

  def on_concat(path, *sources)
    @client.concat(text(path), sources.map { |source| text(source) })
  end

  def on_put(source, target, replace)
    @client.put(text(source), text(target), replace: replace == "1")
  end

  def on_locate(path, offset, length)
    @client.locate(text(path), Integer(offset), number(length)).flat_map do |block|
      [block.offset, block.length, block.hosts.size]
    end
  end

  def on_checksum(path)
    @client.checksum(text(path)).to_a
  end

  def on_status
    @client.status.to_a
  end

  def on_uri(address)
    Strait::URI.parse(text(address)).to_a
  end

  # Below the client: fields by number and type.
  def on_request(name, method, *fields)
    request = fields.each_slice(3).to_h do |number, type, value|
      type = Integer(type)
      [Integer(number), [type, wire_value(type, value)]]
    end
    reply = @clients.fetch(name).instance_variable_get(:@session).raw(method.to_sym, request)
    reply.reject { |_, value| value.is_a?(Hash) || value.is_a?(Array) }.to_a.flatten
  end

  private

  def wire_value(type, value)
    case type
    when Strait::Wire::BINARY then value
    when Strait::Wire::BOOL then value == "1"
    else Integer(value)
    end
  end

  def spelled(part)
    case part
    when true then "1"
    when false then "0"
    else part.to_s
    end
  end

  def text(bytes)
    bytes.dup.force_encoding(Encoding::UTF_8)
  end

  def number(digits)
    Integer(digits) unless digits.empty?
  end

  def time(milliseconds)
    Time.at(0, number(milliseconds), :millisecond) unless milliseconds.empty?
  end
end

pipe = Pipe.new($stdin, $stdout)
driver = Driver.new
while (request = pipe.read)
  operation, *arguments = request
  pipe.write(driver.answer(operation, arguments))
end
