/// A client fails within its time limit, in every state in which its gateway falls silent or ends.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <strait/client.hpp>

#include "support/answering.hpp"
#include "support/fake_gateway.hpp"
#include "support/faulty_proxy.hpp"
#include "support/gateway.hpp"
#include "support/proxy.hpp"

using namespace testing;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds timeout(500);
// The timeout, three seconds of tries, the cleanup after it, and time for a busy machine. A stutter
// takes longer: a tenth of a second for each byte.
constexpr std::chrono::seconds limit(10);

strait::Options impatient() {
    strait::Options options;
    options.timeout = timeout;
    return options;
}

using Strike = std::function<void()>;

struct State {
    const char* name;
    std::function<void(strait::Client&, const std::string& directory, const Strike&)> act;
};

const std::vector<State> states = {
    {"attach",
     [](auto& client, const auto& directory, const auto& strike) {
         strait::Reader reader = client.open_reader(directory + "/file");
         // Reading ahead occupies the one connection, so the next request needs another.
         char byte;
         reader.read(&byte, 1);
         reader.read(&byte, 1);
         strike();
         client.stat(directory);
     }},
    {"look",
     [](auto& client, const auto& directory, const auto& strike) {
         strike();
         client.stat(directory);
     }},
    {"open to read",
     [](auto& client, const auto& directory, const auto& strike) {
         strike();
         client.open_reader(directory + "/file");
     }},
    {"create",
     [](auto& client, const auto& directory, const auto& strike) {
         strike();
         client.create(directory + "/new");
     }},
    {"read",
     [](auto& client, const auto& directory, const auto& strike) {
         strait::Reader reader = client.open_reader(directory + "/file");
         char byte;
         reader.read(&byte, 1);
         strike();
         reader.read_all();
     }},
    {"read somewhere",
     [](auto& client, const auto& directory, const auto& strike) {
         strait::Reader reader = client.open_reader(directory + "/file");
         strike();
         char bytes[100];
         reader.read_at(7, bytes, sizeof bytes);
     }},
    {"read much somewhere",
     [](auto& client, const auto& directory, const auto& strike) {
         strait::Reader reader = client.open_reader(directory + "/file");
         strike();
         std::string bytes(3 << 20, '\0');
         reader.read_at(7, bytes.data(), bytes.size());
     }},
    {"append",
     [](auto& client, const auto& directory, const auto& strike) {
         strait::Writer writer = client.create(directory + "/new");
         strike();
         for (int n = 0; n != 20; ++n) { // more than may be in flight
             writer.write(std::string(1 << 20, 'x'));
         }
         writer.close();
     }},
    {"flush",
     [](auto& client, const auto& directory, const auto& strike) {
         strait::Writer writer = client.create(directory + "/new");
         strike();
         writer.flush();
     }},
    {"close",
     [](auto& client, const auto& directory, const auto& strike) {
         strait::Writer writer = client.create(directory + "/new");
         strike();
         writer.close();
     }},
    {"list",
     [](auto& client, const auto& directory, const auto& strike) {
         auto entries = client.list(directory, 1);
         auto entry = entries.begin();
         strike();
         ++entry;
     }},
    {"change",
     [](auto& client, const auto& directory, const auto& strike) {
         strike();
         client.rename(directory + "/file", directory + "/renamed");
     }},
    {"get",
     [](auto& client, const auto& directory, const auto& strike) {
         strike();
         client.get(directory + "/file", "/dev/null");
     }},
    {"put",
     [](auto& client, const auto& directory, const auto& strike) {
         const Scratch scratch;
         client.get(directory + "/file", scratch / "file");
         client.put(scratch / "file", directory + "/new", [&](auto, auto) { strike(); });
     }},
};

/// The kind of the error in this state, which must come within the limit; none if it came before
/// the fault, on a busy machine.
std::optional<strait::ErrorKind> try_strike(const State& state, Fault fault) {
    const std::string directory = unique_path();
    strait::Client setup(shared_gateway());
    setup.mkdirs(directory);
    for (const char* name : {"/file", "/other"}) {
        strait::Writer writer = setup.create(directory + name);
        writer.write(pattern(4 << 20));
        writer.close();
    }
    FaultyProxy proxy(shared_gateway());
    auto kind = strait::ErrorKind::Internal;
    std::optional<Clock::time_point> struck;
    try {
        strait::Options options = impatient();
        if (fault == Fault::gone) {
            // The client detects this itself, and mustn't mistake it for a silence.
            options.timeout *= 6;
        }
        strait::Client client(proxy.address(), options);
        state.act(client, directory, [&] {
            struck = struck.value_or(Clock::now());
            proxy.strike(fault);
        });
        CHECK_MESSAGE(false, "no error");
    } catch (const strait::Error& error) {
        if (!struck) {
            return std::nullopt;
        }
        kind = error.kind();
        const std::string text = error.what();
        if (fault == Fault::gone) {
            CHECK(text.find("TLS") == text.npos); // the gateway had answered
        } else {
            const std::string from = std::string(proxy.address()) + " within 500 ms";
            INFO(text);
            CHECK(text.find(": no complete answer from " + from) != text.npos);
            CHECK(text.find('/') == 0); // a path
        }
        if (kind == strait::ErrorKind::TimedOut && std::string_view(state.name) == "append") {
            CHECK_FALSE(error.retry_safe()); // another append would double its bytes
        }
    }
    CHECK(Clock::now() - *struck < limit);
    setup.remove(directory, true);
    return kind;
}

strait::ErrorKind struck(const State& state, Fault fault) {
    for (int n = 0; n != 10; ++n) {
        if (const auto kind = try_strike(state, fault)) {
            return *kind;
        }
    }
    CHECK_MESSAGE(false, "the machine is too busy");
    return strait::ErrorKind::Internal;
}

/// Checks each state on a thread of its own: they mostly wait.
void check_side_by_side(const std::function<void(const State&)>& check) {
    shared_gateway(); // starts here: the kernel ends it together with the thread that starts it
    std::vector<std::thread> threads;
    for (const State& state : states) {
        threads.emplace_back([&] {
            CAPTURE(state.name);
            try {
                check(state);
            } catch (const std::exception& error) {
                CHECK_MESSAGE(false, error.what());
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

} // namespace

TEST_CASE("a gateway that doesn't answer wholly is given up in time") {
    check_side_by_side([](const State& state) {
        for (const Fault fault : {Fault::silent, Fault::half, Fault::stutter}) {
            CAPTURE(static_cast<int>(fault));
            CHECK(struck(state, fault) == strait::ErrorKind::TimedOut);
        }
    });
}

TEST_CASE("a gateway that is gone is noticed in time") {
    check_side_by_side([](const State& state) {
        const strait::ErrorKind kind = struck(state, Fault::gone);
        CHECK(
            (kind == strait::ErrorKind::Unavailable || kind == strait::ErrorKind::OutcomeUnknown));
    });
}

TEST_CASE("a connection that closes before its first answer suggests TLS") {
    const Answering closing(std::string(2, '\0')); // less than a frame's header
    CHECK_THROWS_WITH_AS(strait::Client(closing.address(), impatient()),
                         doctest::Contains("does it serve TLS only?"), strait::Unavailable);
}

TEST_CASE("a gateway that takes no connection is given up in time") {
    const FullBacklog full;
    const auto began = Clock::now();
    CHECK_THROWS_WITH_AS(strait::Client(full.address(), impatient()),
                         doctest::Contains("timed out"), strait::Unavailable);
    CHECK(Clock::now() - began < limit);
}

TEST_CASE("a gateway that is silent in a handshake is given up in time") {
    const Answering silent("");
    strait::Options options = impatient();
    options.tls.emplace();
    const auto began = Clock::now();
    CHECK_THROWS_AS(strait::Client(silent.address(), options), strait::TimedOut);
    CHECK(Clock::now() - began < limit);
}

TEST_CASE("threads share the outcome of a login without an answer") {
    constexpr int threads = 6;
    FakeGateway gateway("");
    Proxy proxy(gateway.address());
    strait::Options options;
    options.timeout = std::chrono::seconds(3);
    strait::Client client(proxy.address(), options);
    gateway.fall_silent();
    gateway.forget_tokens();
    proxy.cut();
    std::atomic<int> timed_out{0};
    std::vector<std::thread> running;
    for (int n = 0; n != threads; ++n) {
        running.emplace_back([&] {
            try {
                client.status();
            } catch (const strait::TimedOut&) {
                ++timed_out;
            } catch (const strait::Error&) {
            }
        });
    }
    CHECK(gateway.await_sessions(1 + threads)); // all with the token that isn't good any more
    gateway.resume_once();
    const auto began = Clock::now();
    for (auto& thread : running) {
        thread.join();
    }
    // In sequence they would take 18 seconds.
    CHECK(Clock::now() - began < std::chrono::seconds(8));
    CHECK(timed_out == threads);
    CHECK(gateway.sessions() == 1 + threads + 1);
    gateway.resume();
}
