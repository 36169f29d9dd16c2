# frozen_string_literal: true

require "minitest/autorun"
require "strait/uri"

# Rules of URIs that the shared cases don't cover.
class TestURI < Minitest::Test
  def test_a_uri_is_written_as_it_is_read
    %w[gw:1/ gw:1/a gw:1/@lab gw:1/@lab/a gw:1/@@x gw:1/@@@x gw:1/@lab/@x [::1]:1/@lab/ü].each do |text|
      assert_equal "strait://#{text}", Strait::URI.parse("strait://#{text}").to_s
    end
  end

  def test_an_address_has_no_path
    assert_equal "lab", Strait::URI.parse_address("gw:1/@lab").store
    assert_raises(Strait::InvalidArgument) { Strait::URI.parse_address("gw:1/a") }
  end

  def test_no_message_has_a_password
    %w[ada:secret@gw strait://ada:secret@gw/ http://ada:secret@gw/].each do |text|
      failure = assert_raises(Strait::InvalidArgument) { Strait::URI.parse_address(text) }
      refute_includes failure.message, "secret"
    end
  end
end
