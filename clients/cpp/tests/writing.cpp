/// Writer: order, delayed errors, and broken connections.
#include <doctest/doctest.h>

#include <strait/client.hpp>

#include "support/gateway.hpp"
#include "support/proxy.hpp"

using namespace testing;

namespace {

constexpr std::size_t mib = 1 << 20;

std::string content(strait::Client& client, const std::string& path) {
    return client.open_reader(path).read_all();
}

} // namespace

TEST_CASE("writes of any size follow each other") {
    strait::Client client(shared_gateway());
    const std::string data = pattern(9 * mib + 321);
    for (const std::size_t piece : {std::size_t{997}, mib - 1, mib, 20 * mib}) {
        CAPTURE(piece);
        const std::string path = unique_path();
        strait::Writer writer = client.create(path);
        for (std::size_t from = 0; from < data.size(); from += piece) {
            writer.write(std::string_view(data).substr(from, piece));
        }
        CHECK(writer.position() == static_cast<std::int64_t>(data.size()));
        writer.close();
        CHECK((content(client, path) == data));
    }
}

TEST_CASE("flushed bytes are there for who opens the file then") {
    strait::Client client(shared_gateway());
    const std::string path = unique_path();
    strait::Writer writer = client.create(path);
    writer.write("one ");
    writer.flush();
    CHECK(content(client, path) == "one ");
    writer.write("two");
    writer.sync();
    CHECK(content(client, path) == "one two");
}

TEST_CASE("a writer whose gateway was replaced doesn't know its outcome, and says so") {
    const Scratch store;
    const Gateway first("file://" + store.path()), second("file://" + store.path());
    for (const char* step : {"write", "flush", "close"}) {
        CAPTURE(step);
        Proxy proxy(first.address());
        strait::Client client(proxy.address());
        strait::Writer writer = client.create(unique_path());
        writer.write("data");
        writer.flush();
        proxy.redirect(second.address());
        proxy.cut();
        const auto act = [&] {
            if (step == std::string("close")) {
                writer.close();
                return;
            }
            writer.write(step == std::string("write") ? "more" : "");
            writer.flush();
        };
        CHECK_THROWS_AS(act(), strait::OutcomeUnknown);
        CHECK(client.exists("/"));
    }
}

TEST_CASE("destruction closes a file") {
    strait::Client client(shared_gateway());
    const std::string path = unique_path();
    client.create(path).write("all of it");
    CHECK(content(client, path) == "all of it");
    strait::Writer again = client.append(path); // Busy, were it still open
    CHECK(again.position() == 9);
}

TEST_CASE("an open file keeps the session beyond its client") {
    const std::string path = unique_path();
    strait::Writer writer = strait::Client(shared_gateway()).create(path);
    writer.write("late");
    writer.close();
    strait::Client client(shared_gateway());
    CHECK(content(client, path) == "late");
}

TEST_CASE("a broken connection is not noticed by a writer, whichever side of it breaks") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    const std::string data = pattern(10 * mib + 5);
    const auto check = [&](const std::string& path, int cuts) {
        strait::Writer writer = client.create(path);
        writer.write(std::string_view(data).substr(0, 2 * mib));
        return [&, cuts, path, writer = std::move(writer)]() mutable {
            writer.write(std::string_view(data).substr(2 * mib));
            writer.close();
            CHECK((content(client, path) == data));
            CHECK(proxy.cuts() == cuts);
        };
    };
    int cuts = 0;
    for (const std::int64_t after : {std::int64_t{0}, std::int64_t{100}, std::int64_t{3'333'333}}) {
        CAPTURE(after);
        auto finish = check(unique_path(), ++cuts);
        proxy.cut_requests_after(after);
        finish();
    }
    for (const std::int64_t after : {std::int64_t{0}, std::int64_t{10}, std::int64_t{150}}) {
        CAPTURE(after);
        auto finish = check(unique_path(), ++cuts);
        proxy.cut_replies_after(after);
        finish();
    }
}

TEST_CASE("a change whose reply was lost is made once") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    const std::string from = unique_path(), to = unique_path();
    client.mkdirs(from);
    proxy.cut_replies_after(0);
    client.rename(from, to); // executed a second time it would be a NotFound
    CHECK(proxy.cuts() == 1);
    CHECK(client.exists(to));

    proxy.cut_replies_after(0);
    strait::Writer writer = client.create(from); // AlreadyExists or Busy
    CHECK(proxy.cuts() == 2);
    writer.write("x");
    proxy.cut_replies_after(20); // that of the append, and not before
    writer.close();
    CHECK(content(client, from) == "x");
}

TEST_CASE("a change is of unknown outcome when its gateway doesn't come back") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    const std::string path = unique_path();
    client.stat("/");
    proxy.cut_replies_after(0);
    std::thread gone([&] {
        while (proxy.cuts() == 0) {
            std::this_thread::yield();
        }
        proxy.stop();
    });
    CHECK_THROWS_AS(client.mkdirs(path), strait::OutcomeUnknown);
    gone.join();
    CHECK_THROWS_AS(client.stat(path), strait::Unavailable);
}

TEST_CASE("an error of a write surfaces at the latest when it is closed, and stays") {
    strait::Client client(shared_gateway());
    const std::string path = unique_path();
    strait::Writer writer = client.create(path);
    strait::Client(shared_gateway()).remove(path);
    client.close();
    CHECK_THROWS_AS(
        [&] {
            writer.write("x");
            writer.close();
        }(),
        strait::Error);
    CHECK_THROWS_AS(writer.write("y"), strait::InvalidArgument);
}
