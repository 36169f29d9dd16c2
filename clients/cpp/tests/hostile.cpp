/// A broken or hostile gateway can make a program raise a typed error, and nothing else.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <ostream>
#include <string>

#include <strait/client.hpp>

#include "support/answering.hpp"
#include "support/fake_gateway.hpp"
#include "support/gateway.hpp"
#include "support/proxy.hpp"

using namespace testing;

namespace {

/// The start of openSession's reply in Thrift's binary protocol, up to the reply's first field.
std::string reply_to_open_session(char sequence, char type = 2,
                                  const std::string& method = "openSession") {
    return std::string("\x80\x01\x00", 3) + type + std::string("\x00\x00\x00", 3) +
           static_cast<char>(method.size()) + method + std::string(3, '\0') + sequence +
           std::string("\x0c\x00\x00", 3);
}

const std::string end_of_reply(2, '\0'); // of the struct, and of the result

} // namespace

TEST_CASE("a reply to another request is no answer") {
    strait::Options options;
    options.wire = strait::Wire::binary;
    const Answering right(reply_to_open_session(1) + end_of_reply);
    CHECK_NOTHROW(strait::Client(right.address(), options));
    const Answering other(reply_to_open_session(2) + end_of_reply);
    CHECK_THROWS_AS(strait::Client(other.address(), options), strait::Unavailable);
    // With what would be a good answer behind it.
    const Answering method(reply_to_open_session(1, 2, "closeSession") + end_of_reply +
                           std::string("\x0c\x00\x00", 3) + end_of_reply);
    CHECK_THROWS_AS(strait::Client(method.address(), options), strait::Unavailable);
    const Answering request(reply_to_open_session(1, 1) + end_of_reply);
    CHECK_THROWS_AS(strait::Client(request.address(), options), strait::Unavailable);
}

TEST_CASE("requests say how long the client waits") {
    strait::Options options;
    options.timeout = std::chrono::seconds(50);
    Answering server("no reply");
    CHECK_THROWS_AS(strait::Client(server.address(), options), strait::Unavailable);
    const std::string sent = server.question();
    const auto at = sent.find(std::string("\x08\x00\x0f", 3)); // an i32 with the number 15
    REQUIRE(at != std::string::npos);
    REQUIRE(sent.size() >= at + 7);
    std::uint32_t ms = 0;
    for (std::size_t n = at + 3; n != at + 7; ++n) {
        ms = ms << 8 | static_cast<unsigned char>(sent[n]);
    }
    CHECK(ms > 40'000);
    CHECK(ms <= 50'000);
}

TEST_CASE("a reply without an end is given up, on a wire without frames too") {
    std::string field("\x0b\x00\x63\x00\x01\x00\x00", 7); // an unknown one, of 64 KiB
    field += std::string(1 << 16, 'x');
    std::string endless = reply_to_open_session(1);
    for (int n = 0; n != 20 * 16; ++n) {
        endless += field;
    }
    strait::Options options;
    options.wire = strait::Wire::binary;
    const Answering server(endless + end_of_reply);
    CHECK_THROWS_WITH_AS(strait::Client(server.address(), options), doctest::Contains("over-long"),
                         strait::Unavailable);
}

TEST_CASE("a file's length is believed only as its bytes come") {
    FakeGateway fake("all there is");
    fake.claimed_length = std::int64_t{1} << 62;
    strait::Client client(fake.address());
    CHECK(client.open_reader("/f").read_all() == "all there is");
}

TEST_CASE("nothing is asked for beyond the end of the longest file") {
    FakeGateway fake("");
    fake.claimed_length = std::numeric_limits<std::int64_t>::max();
    strait::Client client(fake.address());
    strait::Reader reader = client.open_reader("/f");
    reader.seek(std::numeric_limits<std::int64_t>::max() - 10);
    std::string several(std::size_t{3} << 20, '\0');
    CHECK(reader.read(several.data(), several.size()) == 0);
    CHECK(fake.reads() == 2);
}

TEST_CASE("a new file begins where a file can") {
    FakeGateway fake("");
    strait::Client client(fake.address());
    for (const std::int64_t claimed :
         {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
        fake.claimed_length = claimed;
        CHECK_THROWS_AS(client.create("/new"), strait::Internal);
    }
}

TEST_CASE("a file longer than is believed is read whole") {
    const std::string data = pattern((std::size_t{2} << 26) + 7);
    FakeGateway fake(data);
    strait::Client client(fake.address());
    CHECK((client.open_reader("/f").read_all() == data));
}

TEST_CASE("a directory of pages without entries has an end") {
    FakeGateway fake("");
    strait::Client client(fake.address());
    CHECK_THROWS_AS(client.list("/").begin(), strait::Internal);
}

TEST_CASE("an entry that isn't in the listed directory is refused") {
    FakeGateway fake("");
    fake.page_entries = 2;
    strait::Client client(fake.address());
    using namespace std::string_literals;
    for (const auto& evil : {""s, "e"s, "/e"s, "/d"s, "/d/"s, "/d/."s, "/d/.."s, "/d/../e"s,
                             "/d/e/f"s, "/d//e"s, "/dd/e"s, "/d/e\0"s}) {
        CAPTURE(evil);
        fake.entry_path = evil;
        CHECK_THROWS_WITH_AS(client.list("/d").begin(), doctest::Contains("the gateway named"),
                             strait::Internal);
    }
    fake.entry_path = "/d/e/f";
    const strait::Listing slashes = client.list("/d//e/");
    CHECK(slashes.begin()->name() == "f");
    fake.entry_path = "/d"; // a file is listed as itself, on the only page
    fake.page_entries = 1;
    const strait::Listing file = client.list("/d");
    auto entry = file.begin();
    CHECK_THROWS_AS(++entry, strait::Internal);
}

TEST_CASE("a file that the gateway closes with another length is an error") {
    FakeGateway fake("");
    fake.claimed_length = 0;
    strait::Client client(fake.address());
    for (const std::int64_t length : {2, 4}) {
        strait::Writer writer = client.create("/new");
        fake.closed_length = length;
        CHECK_THROWS_WITH_AS(writer.close(), doctest::Contains("instead of 0"), strait::Internal);
    }
    strait::Writer writer = client.create("/new");
    fake.closed_length = 0;
    CHECK_NOTHROW(writer.close());
    CHECK(fake.abandoned() == 0);
}

TEST_CASE("a get of fewer bytes than the file had fails and leaves nothing") {
    FakeGateway fake("all there is");
    fake.tells_of_files = true;
    fake.claimed_length = 13;
    strait::Client client(fake.address());
    const Scratch scratch;
    CHECK_THROWS_AS(client.get("/f", scratch / "to"), strait::Busy);
    CHECK(std::filesystem::is_empty(scratch.path()));
    fake.claimed_length = 12;
    CHECK(client.get("/f", scratch / "to") == 12);
}

TEST_CASE("a file keeps its size of appends when a later session allows less") {
    FakeGateway fake("");
    fake.claimed_length = 0;
    fake.max_chunk_bytes = 1000;
    Proxy proxy(fake.address());
    strait::Client client(proxy.address());
    strait::Writer writer = client.create("/new");
    const std::string data = pattern(10'900);
    writer.write(data.data(), 900);
    fake.max_chunk_bytes = 100;
    proxy.cut();
    client.status(); // by a new connection
    writer.write(data.data() + 900, 10'000);
    writer.close();
    CHECK((fake.written() == data));
    CHECK(fake.appends() == 11);
}

TEST_CASE("a page of a listing whose reply is lost isn't skipped") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    const std::string directory = unique_path();
    for (const char* name : {"/a", "/b", "/c"}) {
        client.mkdirs(directory + name);
    }
    const strait::Listing listing = client.list(directory, 1);
    auto entry = listing.begin();
    proxy.cut_replies_after(0);
    CHECK_THROWS_AS(++entry, strait::Unavailable);
    CHECK(proxy.cuts() == 1);
    CHECK(client.exists(directory));
}

TEST_CASE("a listing that is left early is closed") {
    FakeGateway fake("");
    fake.page_entries = 1;
    strait::Client client(fake.address());
    const strait::Listing listing = client.list("/");
    CHECK(listing.begin() != listing.end());
    CHECK(fake.closed() == 1);
}

TEST_CASE("a listing that outlives its gateway says to list anew") {
    FakeGateway fake("");
    fake.page_entries = 1;
    Proxy proxy(fake.address());
    strait::Client client(proxy.address());
    const strait::Listing listing = client.list("/");
    auto entry = listing.begin();
    ++entry;
    fake.replace();
    proxy.cut();
    CHECK_THROWS_WITH_AS(++entry, doctest::Contains("list anew"), strait::Unavailable);
}
