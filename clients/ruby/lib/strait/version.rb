# frozen_string_literal: true

module Strait
  VERSION = "0.1.0"
end
