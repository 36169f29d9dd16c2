# frozen_string_literal: true

# bare_calls.rb read|write HOST:PORT PATH MIB: moves a file of MIB MiB by calls of 1 MiB, one after the other, and
# nothing else, by Thrift's generated code and runtime for Ruby. Connects, prints "ready", waits for a line, works,
# prints "done". The other languages' programs do the same.
# ruby -I GENERATED bare_calls.rb …

require "thrift"
require "dfs_v2"

PIECE_BYTES = 1 << 20

def read(client, path, mib)
  handle = client.openFile(OpenFileRequest.new(path: path)).handle
  mib.times do |n|
    request = ReadRangeRequest.new(handle: handle, offset: n * PIECE_BYTES, length: PIECE_BYTES)
    client.readRange(request).data.bytesize == PIECE_BYTES or raise "a short reply"
  end
  client.closeFile(CloseFileRequest.new(handle: handle))
end

def write(client, path, mib)
  handle = client.createFile(CreateFileRequest.new(path: path, request_id: Random.bytes(16))).handle
  piece = "\0".b * PIECE_BYTES
  mib.times do |n|
    client.appendData(AppendDataRequest.new(handle: handle, expected_offset: n * PIECE_BYTES, data: piece,
                                            request_id: Random.bytes(16)))
  end
  client.closeFile(CloseFileRequest.new(handle: handle, request_id: Random.bytes(16)))
end

action, gateway, path, mib = ARGV
host, port = gateway.split(":")
transport = Thrift::FramedTransport.new(Thrift::Socket.new(host, Integer(port)))
client = DfsV2::Client.new(Thrift::BinaryProtocol.new(transport))
transport.open
client.openSession(OpenSessionRequest.new(version: 1))
$stdout.sync = true
puts "ready"
$stdin.gets
action == "read" ? read(client, path, Integer(mib)) : write(client, path, Integer(mib))
puts "done"
