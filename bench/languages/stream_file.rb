# frozen_string_literal: true

# stream_file.rb read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for Ruby.

require "strait"

PIECE_BYTES = 1 << 20

def read(client, path, mib)
  bytes = 0
  client.open(path, "rb") do |file|
    while (piece = file.read(PIECE_BYTES))
      bytes += piece.bytesize
    end
  end
  bytes == mib << 20 or raise "another length: #{bytes}"
end

def write(client, path, mib)
  piece = "\0".b * PIECE_BYTES
  client.open(path, "wxb") { |file| mib.times { file.write(piece) } }
end

action, gateway, path, mib = ARGV
Strait.connect(gateway) do |client|
  $stdout.sync = true
  puts "ready"
  $stdin.gets
  action == "read" ? read(client, path, Integer(mib)) : write(client, path, Integer(mib))
  puts "done"
end
