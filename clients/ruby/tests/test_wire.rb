# frozen_string_literal: true

require "minitest/autorun"
require "strait/messages"

# The codec against the bytes of a hostile gateway.
class TestWire < Minitest::Test
  Wire = Strait::Wire

  # A frame with a reply's head, and these bytes as its fields.
  def frame(fields, version: 0x8001_0002, method: "stat", number: 7)
    body = [version, method.bytesize, method, number].pack("NNa*N") + fields.b
    [body.bytesize].pack("N") + body
  end

  def reply(fields, **head)
    Wire.reply(frame(fields, **head), "stat", 7)
  end

  def assert_malformed(fields, says, **head)
    failure = assert_raises(Wire::Malformed) { reply(fields, **head) }
    assert_includes failure.message, says
  end

  def test_what_is_written_is_read
    fields = {
      1 => [Wire::BOOL, true], 2 => [Wire::I16, -2], 3 => [Wire::I32, -3], 4 => [Wire::I64, -(1 << 63)],
      5 => [Wire::BINARY, "grüße\0\xff"], 6 => [Wire::LIST, %w[a bc]]
    }
    call = Wire.request("stat", 7, fields)
    assert_equal call.bytesize - 4, Wire.frame_bytes(call)
    call.setbyte(7, 2) # a reply in place of a call
    read = Wire.reply(call, "stat", 7)
    assert_equal({ 1 => true, 2 => -2, 3 => -3, 4 => -(1 << 63), 5 => "grüße\0\xff".b, 6 => %w[a bc] }, read[1])
  end

  def test_a_reply_above_16_mib_is_refused_by_its_head
    assert_equal 16 << 20, Wire.frame_bytes([16 << 20].pack("N"))
    assert_raises(Wire::Malformed) { Wire.frame_bytes([(16 << 20) + 1].pack("N")) }
    assert_raises(Wire::Malformed) { Wire.frame_bytes("\xff\xff\xff\xff".b) }
  end

  def test_a_claimed_length_is_compared_with_the_frame
    [0x7fff_ffff, 0xffff_ffff, 5].each do |length|
      assert_malformed([11, 0, length].pack("CnN") + "abcd", "length")
      assert_malformed([15, 0, 3, length].pack("CnCN") + "abcd", "length") # a list of bytes
      assert_malformed([13, 0, 3, 3, length].pack("CnCCN") + "abcd", "length") # a map
    end
  end

  def test_a_nest_that_is_too_deep
    assert_equal({ 0 => { 0 => {} } }, reply("\x0c\0\0\x0c\0\0\0\0\0"))
    assert_malformed("\x0c\0\0" * 17, "deep")
    assert_malformed("\x0f\0\0#{"\x0f\0\0\0\1" * 100_000}", "deep")
  end

  def test_structs_and_items_are_counted
    list = ->(count) { [15, 0, 3, count].pack("CnCN") + ("\1" * count) } # of bytes
    assert_equal 1 << 17, reply("#{list.call(1 << 17)}\0")[0].size
    assert_malformed("#{list.call(1 << 18)}\0", "too many")
    assert_malformed("#{list.call(1 << 17) * 2}\0", "too many")
    assert_malformed("#{[15, 0, 12, 1 << 17].pack("CnCN")}#{"\0" * (1 << 17)}\0", "too many") # of structs
  end

  def test_a_reply_that_is_cut_anywhere
    fields = "\x0c\0\0\x0b\0\1\0\0\0\2ab\x0a\0\2\0\0\0\0\0\0\0\x05\0\0"
    assert_equal({ 0 => { 1 => "ab", 2 => 5 } }, reply(fields))
    whole = frame(fields)
    (4...whole.bytesize).each do |length|
      assert_raises(Wire::Malformed) { Wire.reply(whole.byteslice(0, length), "stat", 7) }
    end
    assert_malformed("#{fields}x", "end")
  end

  def test_a_head_of_another_reply
    assert_malformed("\0", "another request", number: 8)
    assert_malformed("\0", "another method", method: "rm")
    assert_malformed("\0", "no reply of Thrift's", version: 0x8002_0002)
  end

  def test_random_bytes_give_only_errors_of_the_codec
    random = Random.new(1)
    2000.times do
      reply(random.bytes(random.rand(60)))
    rescue Wire::Malformed
      # as it should
    end
  end

  def test_a_refused_call_names_the_cause
    failure = assert_raises(Strait::Internal) { reply("\x0b\0\1\0\0\0\4nope\0", version: 0x8001_0003) }
    assert_includes failure.message, "nope"
  end

  def test_a_field_of_another_type_counts_as_absent
    assert_equal({ handle: 3 }, Strait::Messages.reply(:openFile, { 1 => 3, 2 => "text", 3 => {}, 99 => true }))
    failure = Strait::Messages.error({ 1 => "x", 3 => 5 })
    assert_instance_of Strait::Internal, failure
  end

  def test_values_that_no_field_holds
    wrong = [{ replication: 40_000 }, { replication: -32_769 }, { permission: "644" }, { permission: 0.5 }, { path: 5 }]
    wrong.each do |values|
      assert_raises(Strait::InvalidArgument) { Strait::Messages.request(:createFile, values) }
    end
  end

  def test_names_are_sent_in_utf8
    sent = ->(path) { Strait::Messages.request(:getFileInfo, { path: })[2].last.b }
    assert_equal "/ü".b, sent.call("/ü".encode("ISO-8859-1"))
    assert_equal "/ü".b, sent.call("/ü".b)
    assert_equal "/ü".b, sent.call("/ü".dup.force_encoding("US-ASCII"))
    assert_raises(Strait::InvalidArgument) { sent.call("/\xff") }
    assert_raises(Strait::InvalidArgument) { sent.call("/\xff".dup.force_encoding("Shift_JIS")) }
  end
end
