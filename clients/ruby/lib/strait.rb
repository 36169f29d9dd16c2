# frozen_string_literal: true

require "strait/client"

# Files of any store behind a Strait gateway.
module Strait
  # Opens a session; Client.new describes the options. With a block, the session ends after it.
  #
  #   Strait.connect("strait://gateway:9090/@lab") { |client| puts client.read("/notes") }
  def self.connect(address, **options)
    client = Client.new(address, **options)
    return client unless block_given?

    begin
      yield client
    ensure
      client.close
    end
  end
end
