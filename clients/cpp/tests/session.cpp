/// Sessions, connections, errors, threads and processes.
#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ostream>
#include <thread>
#include <vector>

#include <strait/client.hpp>

#include "support/answering.hpp"
#include "support/fake_gateway.hpp"
#include "support/faulty_proxy.hpp"
#include "support/gateway.hpp"
#include "support/proxy.hpp"
#include "support/skip.hpp"

#include "session.hpp"

using namespace testing;
namespace detail = strait::detail;

namespace {

/// An address of this machine other than loopback's; empty if it has none.
std::string address_abroad() {
    const int probe = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(9);
    ::inet_pton(AF_INET, "192.0.2.1", &address.sin_addr); // is sent nothing
    socklen_t length = sizeof address;
    char text[INET_ADDRSTRLEN] = "";
    if (::connect(probe, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
        ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
        ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    }
    ::close(probe);
    return text;
}

} // namespace

TEST_CASE("addresses are strait://host:port/ or host:port") {
    const std::string& plain = shared_gateway();
    CHECK(strait::Client("strait://" + plain + "/").exists("/"));
    CHECK(strait::Client("strait://" + plain).exists("/"));
    CHECK(strait::Client("localhost" + plain.substr(plain.rfind(':'))).exists("/"));
    for (const char* wrong : {"", "strait://", "http://x:1/", "host:99999", "host:0", "host:1x",
                              "[::1", "host:1/path", ":9090"}) {
        CAPTURE(wrong);
        CHECK_THROWS_AS(strait::Client{wrong}, strait::InvalidArgument);
    }
}

TEST_CASE("a store that has just started says that it doesn't know all yet") {
    const FakeGateway fake("");
    CHECK(strait::Client(fake.address()).status().settling);
    CHECK_FALSE(strait::Client(shared_gateway()).status().settling);
}

TEST_CASE("an address names no user, and a password in it isn't told on") {
    try {
        strait::Client client("strait://ada:secret@" + shared_gateway() + "/");
        FAIL("it logged nobody in, without a word");
    } catch (const strait::InvalidArgument& error) {
        CHECK(std::string(error.what()).find("secret") == std::string::npos);
    }
}

TEST_CASE("nobody there is Unavailable at once") {
    const auto nobody = [] {
        Proxy proxy(shared_gateway());
        return proxy.address();
    }();
    CHECK_THROWS_AS(strait::Client{nobody}, strait::Unavailable);
}

TEST_CASE("errors are of their kind, of its errno, and carry the path") {
    strait::Client client(shared_gateway());
    try {
        client.open_reader("/missing");
        FAIL("it is missing");
    } catch (const strait::NotFound& error) {
        CHECK(error.kind() == strait::ErrorKind::NotFound);
        CHECK(error.kind_name() == "NotFound");
        CHECK(error.path() == "/missing");
        CHECK((error.code() == std::errc::no_such_file_or_directory));
        CHECK(!error.retry_safe());
        CHECK(std::string(error.what()).find("/missing: ") == 0);
    }
    CHECK_THROWS_AS(client.open_reader("/missing"), std::system_error);
    CHECK_THROWS_AS(client.open_reader("/"), strait::IsADirectory);
}

TEST_CASE("an error of a newer kind keeps its name") {
    FakeGateway fake("");
    strait::Client client(fake.address());
    try {
        client.stat("/f");
        FAIL("it is tired");
    } catch (const strait::Error& error) {
        CHECK(error.kind() == strait::ErrorKind::Internal);
        CHECK(error.kind_name() == "Tired");
        CHECK(error.path() == "/f");
    }
}

TEST_CASE("one connection serves requests that follow each other") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    for (int n = 0; n != 20; ++n) {
        client.stat("/");
    }
    CHECK(proxy.connections() == 1);
}

TEST_CASE("a connection that ended while idle is replaced, and a token logs in again") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    proxy.cut();
    client.mkdirs(unique_path());
    CHECK(proxy.connections() == 2);

    strait::Options options;
    options.token = client.token();
    strait::Client second(proxy.address(), options);
    CHECK(second.user() == client.user());
    second.close(); // not the session, which isn't its own
    CHECK(client.exists("/"));
}

TEST_CASE("a change after the connection's end is no repetition") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    const std::string path = unique_path();
    client.create(path).close();
    proxy.cut();
    // After a repetition, the owner of that file would be unknown.
    CHECK_THROWS_AS(client.create(path), strait::AlreadyExists);
}

TEST_CASE("what can't be asked for twice isn't asked for over a connection that ended") {
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    const std::string directory = unique_path();
    client.mkdirs(directory + "/a");
    client.mkdirs(directory + "/b");
    const strait::Listing listing = client.list(directory, 1);
    auto entry = listing.begin();
    const std::string first = entry->name();
    proxy.cut();
    CHECK((++entry)->name() != first);
}

TEST_CASE("a connection that was interrupted is used no more") {
    detail::Session session({shared_gateway(), {}});
    const auto connection = session.borrow(session.deadline());
    CHECK(connection->is_clean());
    connection->interrupt();
    CHECK(!connection->is_clean());
}

TEST_CASE("a request is tried six times") {
    FaultyProxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    proxy.strike(Fault::cut);
    CHECK_THROWS_AS(client.stat("/"), strait::Unavailable);
    CHECK(proxy.cuts() == 6);
    proxy.strike(Fault::none);
}

TEST_CASE("pauses double, and half of each is random") {
    for (int attempt = 1; attempt != detail::attempts; ++attempt) {
        const double longest = 0.1 * (1 << (attempt - 1));
        double least = longest, most = 0;
        for (int draw = 0; draw != 1000; ++draw) {
            const std::chrono::duration<double> pause = detail::pause_after(attempt);
            least = std::min(least, pause.count());
            most = std::max(most, pause.count());
        }
        CAPTURE(attempt);
        CHECK(least >= longest / 2.001); // it is rounded
        CHECK(most <= longest);
        CHECK(most - least > longest / 4);
    }
}

TEST_CASE("a moved client goes on, a closed one refuses") {
    strait::Client first(shared_gateway());
    strait::Client client = std::move(first);
    CHECK(client.exists("/"));
    client.close();
    client.close();
    CHECK_THROWS_AS(client.stat("/"), strait::InvalidArgument);
}

TEST_CASE("threads share a client") {
    strait::Client client(shared_gateway());
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (unsigned n = 0; n != 4; ++n) {
        threads.emplace_back([&, n] {
            const std::string path = unique_path(), data = pattern(2'500'000, n);
            for (int round = 0; round != 5; ++round) {
                strait::CreateOptions options;
                options.overwrite = true;
                strait::Writer writer = client.create(path, options);
                writer.write(data);
                writer.close();
                right += client.open_reader(path).read_all() == data;
                right += client.stat(path).length == 2'500'000;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(right == 4 * 5 * 2);
}

TEST_CASE("threads attach side by side, and one login serves them all") {
    constexpr int count = 6;
    for (const bool forgotten : {false, true}) {
        CAPTURE(forgotten);
        FakeGateway fake("");
        Proxy proxy(fake.address());
        strait::Client client(proxy.address());
        fake.fall_silent();
        if (forgotten) {
            fake.forget_tokens();
        }
        proxy.cut();
        std::atomic<int> answered{0};
        std::vector<std::thread> threads;
        for (int n = 0; n != count; ++n) {
            threads.emplace_back([&] {
                try {
                    client.status();
                    ++answered;
                } catch (const strait::Error&) {
                    // Counts as not answered.
                }
            });
        }
        CHECK(fake.await_sessions(1 + count));
        fake.resume();
        for (std::thread& thread : threads) {
            thread.join();
        }
        CHECK(answered == count);
        // After a refusal of all: one login, and the others by its token.
        CHECK(fake.sessions() == 1 + count + (forgotten ? count : 0));
    }
}

TEST_CASE("a change that was sent is of unknown outcome if the next login fails") {
    FakeGateway fake("");
    Proxy proxy(fake.address());
    strait::Client client(proxy.address());
    fake.is_busy = true;
    proxy.cut_replies_after(0);
    CHECK_THROWS_AS(client.remove("/x"), strait::OutcomeUnknown);
}

TEST_CASE("a forked child goes on with connections of its own") {
    strait::Client client(shared_gateway());
    const std::string path = unique_path(), data = pattern(5'000'000);
    strait::Writer writer = client.create(path);
    writer.write(data);
    writer.flush();
    strait::Reader reader = client.open_reader(path);
    std::string start(1'500'000, '\0');
    REQUIRE(reader.read(start.data(), start.size()) == start.size());
    const pid_t child = ::fork();
    if (child == 0) {
        bool right = start + reader.read_all() == data && client.exists(path);
        try {
            writer.write("no");
            right = false;
        } catch (const strait::InvalidArgument&) {
            writer.close(); // the parent's matter
        }
        client.close();
        ::_exit(right ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK((start + reader.read_all() == data));
    writer.write("yes");
    writer.close();
    CHECK((client.open_reader(path).read_all() == data + "yes"));
}

TEST_CASE("a login leaves the machine by TLS only") {
    const std::string own = address_abroad();
    if (own.empty()) {
        return lacks("an address other than loopback's");
    }
    const FakeGateway abroad("", own);
    const auto check_refused = [&](const strait::Options& login) {
        CHECK_THROWS_WITH_AS(strait::Client(abroad.address(), login),
                             doctest::Contains("in the clear; use TLS"), strait::Unauthenticated);
    };
    strait::Options password;
    password.user = "u";
    password.password = "p";
    check_refused(password);
    strait::Options token;
    token.token = "token";
    check_refused(token);
    CHECK(abroad.sessions() == 0);
    CHECK(strait::Client(abroad.address()).token() == "token"); // this token wasn't given in secret
}

TEST_CASE("silence is a timeout") {
    const Answering silent("");
    strait::Options options;
    options.timeout = std::chrono::milliseconds(50);
    CHECK_THROWS_AS(strait::Client(silent.address(), options), strait::TimedOut);
    const Answering silent_in_handshake("");
    options.tls.emplace();
    CHECK_THROWS_AS(strait::Client(silent_in_handshake.address(), options), strait::TimedOut);
}

TEST_CASE("another protocol is said to be no gateway, on every wire") {
    using strait::Wire;
    const std::vector<std::string> answers = {"HTTP/1.1 400 Bad Request\r\n\r\n",
                                              std::string("\x80\x01\x00\x02\xff", 5), "\xff",
                                              std::string("\x00\x00\x00\x05hello", 9)};
    for (const Wire wire :
         {Wire::framed_binary, Wire::binary, Wire::framed_compact, Wire::compact}) {
        for (const std::string& answer : answers) {
            CAPTURE(static_cast<int>(wire));
            CAPTURE(answer);
            Answering server(answer + std::string(100, '\0') + std::string(1000, '\xff'));
            strait::Options options;
            options.wire = wire;
            CHECK_THROWS_AS(strait::Client(server.address(), options), strait::Unavailable);
        }
    }
}

TEST_CASE("a login is needed where the gateway has passwords") {
    const Scratch scratch;
    const std::string passwords = scratch / "passwords";
    const std::string setting = "echo secret | " + command() + " passwd ada --file " + passwords;
    REQUIRE(std::system((setting + " >/dev/null").c_str()) == 0);
    strait::Options options;
    options.user = "ada";
    options.password = "secret";
    const Gateway gateway("file://" + scratch.path(), {"--passwords", passwords}, options);
    strait::Client client(gateway.address(), options);
    CHECK(client.user() == "ada");
    options.password = "wrong";
    CHECK_THROWS_AS(strait::Client(gateway.address(), options), strait::Unauthenticated);
    CHECK_THROWS_AS(strait::Client{gateway.address()}, strait::Unauthenticated);
}

TEST_CASE("the gateway describes itself and its stores") {
    strait::Client client(shared_gateway());
    const strait::ServerInfo info = client.server_info();
    CHECK(info.server.find("strait") == 0);
    CHECK(info.protocol_version == 1);
    REQUIRE(info.stores.size() == 1);
    CHECK(info.stores[0].name == client.store().name);
    CHECK(client.store().can("append"));
    CHECK(!client.store().can("fly"));
}
