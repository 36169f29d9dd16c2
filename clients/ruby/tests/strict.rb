# frozen_string_literal: true

# `ruby -w -r ./strict.rb` makes Ruby's warnings errors, except those about its own libraries.
module Warning
  HERE = File.expand_path("..", __dir__)

  def self.warn(message, **)
    raise message if message.start_with?(HERE, File.basename($PROGRAM_NAME))

    super
  end
end
