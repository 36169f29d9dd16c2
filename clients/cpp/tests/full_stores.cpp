/// A store without room: open files go on once there is room again.
#include <doctest/doctest.h>

#include <unistd.h>

#include <functional>

#include <strait/strait.hpp>

#include "support/fake_gateway.hpp"
#include "support/gateway.hpp"
#include "support/proxy.hpp"
#include "support/skip.hpp"
#include "support/waits.hpp"

using namespace testing;

namespace {

constexpr std::size_t mib = 1 << 20;

struct Fixture {
    Fixture() { fake.claimed_length = 0; }

    FakeGateway fake{""};
    strait::Client client{fake.address()};
};

void await_closes(const FakeGateway& fake, int count) {
    CHECK(eventually([&] { return fake.closed() >= count; }));
    CHECK(fake.closed() == count);
}

} // namespace

TEST_CASE_FIXTURE(Fixture, "each step may be repeated, and nothing is lost or doubled") {
    const std::string data = pattern(3 * mib + 77);
    const std::function<void(strait::Writer&)> steps[] = {
        [](strait::Writer& writer) { writer.flush(); },
        [](strait::Writer& writer) { writer.sync(); },
        [](strait::Writer& writer) { writer.close(); },
    };
    std::string all;
    for (const auto& step : steps) {
        fake.claimed_length = static_cast<std::int64_t>(all.size());
        strait::Writer writer = client.create("/x");
        writer.write("before");
        writer.sync();
        fake.full = true;
        // The gateway refuses the first append, and with it the others.
        writer.write(data);
        for (int n = 0; n != 2; ++n) {
            try {
                step(writer);
                FAIL("it isn't refused");
            } catch (const strait::NoSpace& error) {
                CHECK(error.path() == "/x");
            }
        }
        fake.full = false;
        step(writer);
        writer.close();
        all += "before" + data;
        CHECK((fake.written() == all));
    }
}

TEST_CASE_FIXTURE(Fixture, "a refused write of a chunk took nothing") {
    const std::string data = pattern(20 * mib + 5);
    strait::Writer writer = client.create("/x");
    fake.full = true;
    int refusals = 0;
    for (std::size_t at = 0; at < data.size();) {
        const auto piece = std::string_view(data).substr(at, 300'000);
        try {
            writer.write(piece);
            at += piece.size();
        } catch (const strait::NoSpace&) {
            CHECK(writer.position() == static_cast<std::int64_t>(at));
            fake.full = ++refusals < 4;
        }
    }
    writer.close();
    CHECK(refusals == 4);
    CHECK((fake.written() == data));
}

TEST_CASE_FIXTURE(Fixture, "the position tells how much a large write took") {
    const std::string data = pattern(20 * mib + 5);
    strait::Writer writer = client.create("/x");
    fake.full = true;
    CHECK_THROWS_AS(writer.write(data), strait::NoSpace);
    const auto taken = static_cast<std::size_t>(writer.position());
    CHECK(taken < data.size());
    fake.full = false;
    writer.write(std::string_view(data).substr(taken));
    CHECK(writer.close() == 2);
    CHECK((fake.written() == data));
}

TEST_CASE_FIXTURE(Fixture, "a stream keeps what was refused") {
    strait::ostream out(client.create("/x"));
    std::string text;
    int refusals = 0;
    fake.full = true;
    for (int number = 0; number != 800'000;) {
        const std::string line = "a line with the number " + std::to_string(number) + "\n";
        if (out << line) {
            text += line;
            ++number;
        } else {
            out.clear();
            CHECK(out.tellp() == static_cast<std::streamoff>(text.size()));
            fake.full = ++refusals < 4;
        }
    }
    CHECK(refusals == 4);
    fake.full = true;
    CHECK_THROWS_AS(out.close(), strait::NoSpace);
    CHECK(out.bad());
    fake.full = false;
    CHECK(out.close() == 2);
    out.close();
    CHECK((fake.written() == text));
}

TEST_CASE_FIXTURE(Fixture, "flush, sync and close tell the replicas") {
    strait::Writer writer = client.create("/x");
    writer.write("x");
    CHECK(writer.flush() == 3);
    CHECK(writer.sync() == 3);
    CHECK(writer.close() == 2);
    CHECK_FALSE(writer.close().has_value());
}

TEST_CASE_FIXTURE(Fixture, "a file that is dropped after a refusal is given up at once") {
    {
        strait::Writer writer = client.create("/x");
        fake.full = true;
        writer.write("x");
        CHECK_THROWS_AS(writer.close(), strait::NoSpace);
        CHECK(fake.appends() == 1);
        CHECK(fake.closed() == 0);
    }
    await_closes(fake, 1);
    CHECK(fake.appends() == 1);
    {
        strait::ostream out(client.create("/x"));
        out << "x";
        CHECK_THROWS_AS(out.close(), strait::NoSpace);
        CHECK(fake.appends() == 2);
    }
    await_closes(fake, 2);
    CHECK(fake.appends() == 2);
    {
        // One that nobody tried to close is tried once.
        strait::Writer writer = client.create("/x");
        writer.write("x");
    }
    await_closes(fake, 3);
    CHECK(fake.appends() == 3);
    CHECK(fake.abandoned() == 3);
}

TEST_CASE_FIXTURE(Fixture, "a store that can't go on is reported by its first error") {
    fake.goes_on = false;
    strait::Writer writer = client.create("/x");
    fake.full = true;
    CHECK_THROWS_AS(writer.close(), strait::NoSpace);
    fake.full = false;
    // The gateway doesn't know the handle any more.
    try {
        writer.close();
        FAIL("it isn't refused");
    } catch (const strait::NoSpace& error) {
        CHECK(error.message().find("ended with an earlier error") != std::string::npos);
        CHECK_FALSE(error.retry_safe());
    }
    writer.close();
}

TEST_CASE_FIXTURE(Fixture, "an append that was taken though it was refused isn't doubled") {
    for (const std::size_t size : {mib, 3 * mib}) {
        const std::string before = fake.written(), data = pattern(size);
        fake.claimed_length = static_cast<std::int64_t>(before.size());
        strait::Writer writer = client.create("/x");
        fake.takes_and_refuses = true;
        writer.write(data);
        CHECK_THROWS_AS(writer.flush(), strait::Unavailable);
        writer.close();
        CHECK((fake.written() == before + data));
    }
}

TEST_CASE_FIXTURE(Fixture, "a connection that breaks during the repetition changes nothing") {
    Proxy proxy(fake.address());
    strait::Client through(proxy.address());
    const std::string data = pattern(3 * mib);
    strait::Writer writer = through.create("/x");
    fake.full = true;
    writer.write(data);
    CHECK_THROWS_AS(writer.flush(), strait::NoSpace);
    fake.full = false;
    SUBCASE("on the way there") {
        proxy.cut_requests_after(100'000);
    }
    SUBCASE("on the way back") {
        proxy.cut_replies_after(10);
    }
    writer.close();
    CHECK(proxy.cuts() == 1);
    CHECK((fake.written() == data));
}

TEST_CASE("files of a Kadoop whose disks are full go on once there is room") {
    if (::geteuid() != 0) {
        return lacks("root, who can mount a small disk");
    }
    const Scratch scratch;
    const KadoopOnASmallDisk kadoop(scratch);
    strait::Client client(kadoop.address());
    const std::string data = pattern(12 * mib);
    strait::Writer writer = client.create("/x");
    writer.write("before, ");
    CHECK(writer.sync() == 1);
    kadoop.fill();
    writer.write(data);
    CHECK_THROWS_AS(writer.close(), strait::NoSpace); // after 5 s without progress
    kadoop.relieve();
    writer.write(", after");
    CHECK(writer.close() == 1);
    CHECK((client.open_reader("/x").read_all() == "before, " + data + ", after"));
}
