# frozen_string_literal: true

require_relative "lib/strait/version"

Gem::Specification.new do |spec|
  spec.name = "strait-fs"
  spec.version = Strait::VERSION
  spec.authors = ["The Strait authors"]
  spec.summary = "Files of any store behind a Strait gateway"
  spec.description = "Strait gives programs one interface to many distributed file systems. This is its client " \
                     "library: open, read and write remote files with the methods of IO."
  spec.homepage = "https://github.com/strait-fs/strait"
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["lib/**/*.rb", "LICENSE", "README.md", base: __dir__]
  spec.metadata["rubygems_mfa_required"] = "true"
end
