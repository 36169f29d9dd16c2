/// Reader: order, position, requests in flight, and a gateway's influence on them.
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include <strait/client.hpp>

#include "support/fake_gateway.hpp"
#include "support/gateway.hpp"
#include "support/proxy.hpp"

using namespace testing;

namespace {

constexpr std::size_t mib = 1 << 20;
// No multiple of a chunk, so that it meets no boundary by chance.
const std::string& data() {
    static const std::string bytes = pattern(11 * mib + 12'345);
    return bytes;
}

/// The path of a file with the data, on the shared gateway.
const std::string& big_file() {
    static const std::string path = [] {
        strait::Client client(shared_gateway());
        const std::string made = unique_path();
        strait::Writer writer = client.create(made);
        writer.write(data());
        writer.close();
        return made;
    }();
    return path;
}

/// Reads the rest in pieces.
std::string read_by(strait::Reader& reader, std::size_t piece) {
    std::string all, part(piece, '\0');
    while (const std::size_t count = reader.read(part.data(), piece)) {
        all.append(part, 0, count);
    }
    return all;
}

} // namespace

TEST_CASE("a large file comes back in pieces of any size") {
    strait::Client client(shared_gateway());
    for (const std::size_t piece :
         {std::size_t{1009}, 4096 * std::size_t{17}, mib, 3 * mib + 7, 40 * mib}) {
        CAPTURE(piece);
        strait::Reader reader = client.open_reader(big_file());
        CHECK(reader.length() == static_cast<std::int64_t>(data().size()));
        CHECK((read_by(reader, piece) == data()));
        CHECK(reader.tell() == reader.length());
    }
}

TEST_CASE("read_some gives what is at hand, and never nothing before the end") {
    strait::Client client(shared_gateway());
    strait::Reader reader = client.open_reader(big_file());
    std::string all, part(70'001, '\0');
    while (const std::size_t count = reader.read_some(part.data(), part.size())) {
        all.append(part, 0, count);
    }
    CHECK((all == data()));
}

TEST_CASE("reads after a seek begin there, also beyond the end") {
    strait::Client client(shared_gateway());
    strait::Reader reader = client.open_reader(big_file());
    std::string part(5000, '\0');
    for (const std::size_t offset :
         {5 * mib, std::size_t{3}, data().size() - 5000, std::size_t{0}}) {
        CAPTURE(offset);
        reader.seek(static_cast<std::int64_t>(offset));
        CHECK(reader.read(part.data(), part.size()) == part.size());
        CHECK((part == data().substr(offset, part.size())));
        CHECK(reader.read(part.data(), part.size()) ==
              std::min(part.size(), data().size() - offset - 5000));
    }
    reader.seek(reader.length() + 100);
    CHECK(reader.read(part.data(), part.size()) == 0);
    CHECK_THROWS_AS(reader.seek(-1), strait::InvalidArgument);
}

TEST_CASE("positional reads of many threads don't disturb each other or the position") {
    strait::Client client(shared_gateway());
    strait::Reader reader = client.open_reader(big_file());
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread != 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::size_t n = 0; n != 20; ++n) {
                const std::size_t offset = (thread * 20 + n) * 130'003;
                std::string part(thread % 2 != 0 ? 2 * mib + 3 : 4096, '\0');
                part.resize(
                    reader.read_at(static_cast<std::int64_t>(offset), part.data(), part.size()));
                wrong += part != data().substr(offset, thread % 2 != 0 ? 2 * mib + 3 : 4096);
            }
        });
    }
    const std::string all = reader.read_all();
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
    CHECK((all == data()));
}

TEST_CASE("what was appended after opening is read too") {
    strait::Client client(shared_gateway());
    const std::string path = unique_path();
    client.create(path).write("before");
    strait::Reader reader = client.open_reader(path);
    strait::Writer more = client.append(path);
    more.write(" and after");
    more.close();
    CHECK(reader.read_all() == "before and after");
}

TEST_CASE("a broken connection is not noticed by a reader, wherever it breaks") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    for (const std::int64_t after :
         {std::int64_t{0}, std::int64_t{17}, std::int64_t{500'000}, std::int64_t{3'333'333}}) {
        CAPTURE(after);
        strait::Reader reader = client.open_reader(big_file());
        std::string start(mib + 1, '\0');
        REQUIRE(reader.read(start.data(), start.size()) == start.size());
        const int before = proxy.cuts();
        proxy.cut_replies_after(after);
        CHECK((start + read_by(reader, 100'003) == data()));
        CHECK(proxy.cuts() == before + 1);
    }
}

TEST_CASE("a broken connection is not noticed by a positional read") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    strait::Reader reader = client.open_reader(big_file());
    std::string part(6 * mib, '\0');
    proxy.cut_replies_after(2 * mib + 99);
    CHECK(reader.read_at(777, part.data(), part.size()) == part.size());
    CHECK((part == data().substr(777, part.size())));
    CHECK(proxy.cuts() == 1);
}

TEST_CASE("short replies are no end of the file") {
    FakeGateway fake(data());
    strait::Client client(fake.address());
    for (const std::int32_t most : {1 << 30, 1'000'003, 299'999}) {
        CAPTURE(most);
        fake.most_bytes = most;
        for (const std::size_t piece : {std::size_t{64'000}, mib, 3 * mib}) {
            strait::Reader reader = client.open_reader("/f");
            CHECK((read_by(reader, piece) == data()));
        }
        strait::Reader reader = client.open_reader("/f");
        std::string part(4 * mib, '\0');
        CHECK(reader.read_at(1, part.data(), part.size()) == part.size());
        CHECK((part == data().substr(1, part.size())));
    }
}

TEST_CASE("a handle that ended with its session is opened again") {
    FakeGateway fake(data());
    strait::Client client(fake.address());
    strait::Reader reader = client.open_reader("/f");
    std::string start(2 * mib, '\0');
    REQUIRE(reader.read(start.data(), start.size()) == start.size());
    fake.forget_handles();
    CHECK((start + reader.read_all() == data()));
    CHECK(fake.opened() == 2);
}

TEST_CASE("a handle that ends again and again is opened each time") {
    FakeGateway fake(data());
    strait::Client client(fake.address());
    strait::Reader reader = client.open_reader("/f");
    std::string part(100'000, '\0');
    SUBCASE("and lasts in the end") {
        fake.ends_handles = 3;
        fake.forget_handles();
        CHECK(reader.read_at(1, part.data(), part.size()) == part.size());
        CHECK((part == data().substr(1, part.size())));
        CHECK(fake.opened() == 1 + 4);
    }
    SUBCASE("but is reported if it never lasts") {
        fake.ends_handles = 1'000;
        fake.forget_handles();
        CHECK_THROWS_WITH_AS(reader.read_at(1, part.data(), part.size()),
                             doctest::Contains("again and again"), strait::Unavailable);
    }
}

TEST_CASE("a file replaced by one as long is an error and not a mixture") {
    FakeGateway fake(data());
    strait::Client client(fake.address());
    strait::Reader reader = client.open_reader("/f");
    std::string start(2 * mib, '\0');
    REQUIRE(reader.read(start.data(), start.size()) == start.size());
    fake.identity = 'b';
    fake.forget_handles();
    CHECK_THROWS_WITH(reader.read_all(), doctest::Contains("replaced by another"));
}

TEST_CASE("small reads in order are answered from requests ahead of them") {
    FakeGateway fake(data());
    strait::Client client(fake.address());
    strait::Reader reader = client.open_reader("/f");
    CHECK((read_by(reader, 4096) == data()));
    // The first read, a request for each mebibyte, and the end.
    CHECK(fake.reads() <= 1 + 12 + 2);
}
