# frozen_string_literal: true

require "minitest/autorun"
require_relative "fake_gateway"

# A client whose gateway refuses, cuts, forgets or claims too much.
class TestSession < Minitest::Test
  Wire = Strait::Wire

  # A connection to another machine, for a test.
  module Remote
    class << self
      attr_accessor :on
    end

    def local?
      !Remote.on && super
    end
  end
  Strait::Connection.prepend(Remote)

  OPENED = { 1 => [Wire::I64, 5], 2 => [Wire::I64, 0] }.freeze

  def with(answer, **options)
    gateway = FakeGateway.new(&answer)
    client = Strait.connect(gateway.address, timeout: 10, **options)
    yield client, gateway
  ensure
    client&.close
    gateway&.close
  end

  # Answers of a store that has room for the bytes once `results` is empty.
  def writes(results)
    lambda do |request|
      case request.name
      when "createFile" then OPENED
      when "appendData" then results.shift || {}
      else {}
      end
    end
  end

  def test_a_writer_keeps_the_bytes_that_a_full_store_refused
    with(writes([Strait::NoSpace, Strait::Unavailable])) do |client, gateway|
      file = client.open("/a", "w")
      file.write("bytes")
      failure = assert_raises(Strait::NoSpace) { file.flush }
      assert_equal "/a", failure.path
      assert_raises(Errno::EHOSTUNREACH) { file.fsync }
      file.write(" and more")
      assert_equal 14, file.pos
      file.close

      appends = gateway.sent("appendData").map(&:fields)
      assert_equal ["bytes", "bytes", "bytes and more"], (appends.map { |fields| fields[6] })
      assert_equal [0], appends.map { |fields| fields[5] }.uniq
      assert_equal 3, appends.map { |fields| fields[2] }.uniq.size, "each has a new id"
      assert_equal [nil], appends.map { |fields| fields[3] }.uniq, "none is a retry"
    end
  end

  def test_a_refused_write_of_several_objects_has_taken_none
    with(writes([Strait::NoSpace])) do |client, gateway|
      file = client.open("/a", "w")
      first = "a" * (1 << 19)
      file.write(first)
      parts = ["b" * (1 << 18), "c" * (1 << 19)]
      assert_raises(Strait::NoSpace) { file.write(*parts) }
      assert_equal first.bytesize, file.pos
      assert_equal 3 << 18, file.write(*parts)
      file.close

      assert_equal [first, first, parts.join], (gateway.sent("appendData").map { |request| request.fields[6] })
    end
  end

  def test_a_cut_append_is_repeated_with_its_id
    with(writes(%i[cut cut])) do |client, gateway|
      client.write("/a", "bytes")
      appends = gateway.sent("appendData").map(&:fields)
      assert_equal [nil, true, true], (appends.map { |fields| fields[3] })
      assert_equal 1, appends.map { |fields| fields[2] }.uniq.size
    end
  end

  def test_a_writer_whose_session_ended_doesnt_know_the_outcome
    with(->(request) { request.name == "createFile" ? OPENED : Strait::InvalidArgument }) do |client, gateway|
      file = client.open("/a", "w")
      gateway.expire
      file.write("bytes")
      assert_raises(Strait::OutcomeUnknown) { file.flush }
      assert_predicate file, :closed?
      assert_raises(Strait::OutcomeUnknown) { file.write("more") }
    end
  end

  def test_a_block_that_fails_abandons_its_file
    with(writes([])) do |client, gateway|
      assert_raises(ZeroDivisionError) { client.open("/a", "w") { 1 / 0 } }
      assert_equal [true], (gateway.sent("closeFile").map { |request| request.fields[5] })
    end
  end

  # A file whose handle and identity are those of the session's number.
  def reads(identities)
    opened = 0
    lambda do |request|
      case request.name
      when "openFile"
        opened += 1
        { 1 => [Wire::I64, opened], 2 => [Wire::I64, 9], 3 => [Wire::BINARY, identities[opened - 1]] }
      when "readRange"
        request.fields[2] == opened ? { 1 => [Wire::BINARY, "bytes #{opened}"] } : Strait::InvalidArgument
      else {}
      end
    end
  end

  def test_a_reader_opens_its_file_again
    gone = false
    answers = reads(%w[same same])
    answer = lambda do |request|
      next Strait::NotFound if gone && request.name == "readRange" && request.fields[2] == 1

      answers.call(request)
    end
    with(answer) do |client, gateway|
      client.open("/a", "rb") do |file|
        assert_equal "bytes 1", file.pread(7, 0)
        gateway.expire
        gone = true
        assert_equal "bytes 2", file.pread(7, 0)
      end
    end
  end

  def test_a_reader_refuses_the_bytes_of_another_file
    gone = false
    answers = reads(%w[one other])
    answer = ->(request) { gone && request.name == "readRange" ? Strait::NotFound : answers.call(request) }
    with(answer) do |client, _gateway|
      client.open("/a", "rb") do |file|
        gone = true
        assert_raises(Strait::Unavailable) { file.pread(7, 0) }
      end
    end
  end

  def test_a_reply_that_claims_too_much_ends_the_connection
    with(->(_request) { "\x7f\xff\xff\xff".b }) do |client, gateway|
      assert_raises(Strait::Unavailable) { client.stat("/a") }
      assert_equal 6, gateway.sent("getFileInfo").size
    end
  end

  def test_a_repeated_change_whose_replies_are_lost_has_an_unknown_outcome
    with(->(_request) { :cut }) do |client, gateway|
      failure = assert_raises(Strait::OutcomeUnknown) { client.mkdir_p("/a") }
      assert_equal "/a", failure.path
      assert_equal 6, gateway.sent("makeDirectories").size
    end
  end

  def test_a_listing_ends_with_its_session
    gateway = nil
    pages = 0
    answer = lambda do |_request|
      gateway.expire if (pages += 1) == 1
      { 2 => [Wire::I64, 7] }
    end
    with(answer) do |client, fake|
      gateway = fake
      assert_raises(Strait::Unavailable) { client.list("/a").to_a }
    end
  end

  def test_a_refused_page_of_the_same_session
    with(->(request) { request.fields[3] ? Strait::InvalidArgument : { 2 => [Wire::I64, 7] } }) do |client, _gateway|
      assert_raises(Strait::InvalidArgument) { client.list("/a").to_a }
    end
  end

  def test_a_secret_isnt_sent_to_another_machine_in_the_clear
    gateway = FakeGateway.new { {} }
    Remote.on = true
    [{ user: "ada", password: "secret" }, { token: "secret" }].each do |login|
      assert_raises(Strait::Unauthenticated) { Strait.connect(gateway.address, **login) }
    end
    assert_empty gateway.requests
    Strait.connect(gateway.address, &:store)
  ensure
    Remote.on = false
    gateway.close
  end

  def test_no_password_in_an_inspection
    with(->(_request) { {} }, user: "ada", password: "secret") do |client, _gateway|
      refute_includes client.inspect + client.instance_variable_get(:@session).inspect, "secret"
    end
  end
end
