# Calls of both generations of the interface, by Thrift's generator and runtime for Ruby:
# ruby -I GENERATED story.rb HOST PORT DIRECTORY
require "thrift"
require "dfs_v2"
require "dfs_constants"

host, port, directory = ARGV
socket = Thrift::Socket.new(host, port.to_i)
transport = Thrift::BufferedTransport.new(socket)
client = DfsV2::Client.new(Thrift::BinaryProtocol.new(transport))
transport.open

def same(got, wanted)
  raise "#{got.inspect} in place of #{wanted.inspect}" unless got == wanted
end

# 2009
session = client.init("")
same(client.mkdir(session, directory), true)
path = "#{directory}/old"
file = client.open(session, path, WRITE)
client.write(session, file, "bytes\0\xff".b, -1, 7)
client.close(session, file)
same(client.stat(session, path).length, 7)
file = client.open(session, path, READ)
same(client.read(session, file, 0, 100).b, "bytes\0\xff".b)
client.close(session, file)
same(client.listFiles(session, directory).map(&:path).map { |name| name.split("/").last }, ["old"])
begin
  client.stat(session, "#{directory}/missing")
  raise "no exception"
rescue DfsServiceIOException => error
  raise error.message unless error.message.include?("missing")
end
client.closeClient(session)

# Today
client.openSession(OpenSessionRequest.new(version: 1))
path = "#{directory}/new"
id = -> { Random.bytes(16) }
file = client.createFile(CreateFileRequest.new(path: path, request_id: id.call))
append = AppendDataRequest.new(handle: file.handle, expected_offset: 0, data: "bytes\0\xff".b, request_id: id.call)
same(client.appendData(append).position, 7)
same(client.closeFile(CloseFileRequest.new(handle: file.handle, request_id: id.call)).length, 7)
file = client.openFile(OpenFileRequest.new(path: path))
range = ReadRangeRequest.new(handle: file.handle, offset: 2, length: 100)
same(client.readRange(range).data.b, "tes\0\xff".b)
client.closeFile(CloseFileRequest.new(handle: file.handle))
names = client.listDirectory(ListDirectoryRequest.new(path: directory)).entries.map(&:path)
same(names.map { |name| name.split("/").last }.sort, %w[new old])
begin
  client.getFileInfo(GetFileInfoRequest.new(path: "#{directory}/missing"))
  raise "no exception"
rescue DfsError => error
  same([error.code, error.kind, error.path], [ErrorCode::NOT_FOUND, "NotFound", "#{directory}/missing"])
end
client.removePath(RemovePathRequest.new(path: directory, recursive: true, request_id: id.call))
client.closeSession(CloseSessionRequest.new)
puts "Ruby: both generations of calls"
