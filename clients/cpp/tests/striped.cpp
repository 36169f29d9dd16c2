/// Large reads over TLS: two connections, one file.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <strait/client.hpp>

#include "support/gateway.hpp"
#include "support/proxy.hpp"

using namespace testing;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
/// Bytes after which the second connection is in use.
constexpr std::size_t begun_bytes = 35 * mib;
/// Enough after that for both connections to have chunks in flight, and an odd end.
constexpr std::size_t file_bytes = 52 * mib + 4321;

/// A gateway with TLS, behind a proxy, with one large file.
class Setting {
public:
    Setting() : data(pattern(file_bytes)) {
        const std::string make =
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
            " -subj /CN=gateway -addext subjectAltName=IP:127.0.0.1 -keyout " +
            scratch_ / "key" + " -out " + scratch_ / "pem" + " 2>/dev/null";
        REQUIRE(std::system(make.c_str()) == 0);
        std::ofstream(scratch_ / "large", std::ios::binary) << data;
        options.tls.emplace();
        options.tls->ca_file = scratch_ / "pem";
        gateway_.emplace(
            "file://" + scratch_.path(),
            std::vector<std::string>{"--tls-cert", scratch_ / "pem", "--tls-key", scratch_ / "key"},
            options);
        proxy.emplace(gateway_->address());
    }

    const std::string data;
    strait::Options options;
    std::optional<Proxy> proxy;

private:
    const Scratch scratch_;
    std::optional<Gateway> gateway_;
};

/// The next `size` bytes, in pieces of `piece`.
std::string take(strait::Reader& reader, std::size_t size, std::size_t piece) {
    std::string all(size, '\0');
    std::size_t filled = 0;
    while (const std::size_t count =
               reader.read_some(all.data() + filled, std::min(piece, size - filled))) {
        filled += count;
    }
    all.resize(filled);
    return all;
}

} // namespace

TEST_CASE("a large file comes over TLS by two connections, whole and in order") {
    Setting setting;
    strait::Client client(setting.proxy->address(), setting.options);
    for (const std::size_t piece : {std::size_t{64'000}, mib, 3 * mib}) {
        CAPTURE(piece);
        strait::Reader reader = client.open_reader("/large");
        CHECK((take(reader, file_bytes + 1, piece) == setting.data));
    }
    CHECK(setting.proxy->connections() == 2);
}

TEST_CASE("without TLS, and for less, one connection does") {
    Setting setting;
    strait::Options plain = setting.options;
    plain.tls.reset();
    strait::Client client(setting.proxy->address(), plain);
    strait::Reader reader = client.open_reader("/large");
    CHECK((take(reader, file_bytes + 1, mib) == setting.data));
    CHECK(setting.proxy->connections() == 1);
    strait::Client encrypted(setting.proxy->address(), setting.options);
    strait::Reader begun = encrypted.open_reader("/large");
    CHECK((take(begun, 30 * mib, mib) == setting.data.substr(0, 30 * mib)));
    CHECK(setting.proxy->connections() == 2);
}

TEST_CASE("where both connections break, the reader goes on over others") {
    Setting setting;
    strait::Client client(setting.proxy->address(), setting.options);
    strait::Reader reader = client.open_reader("/large");
    std::string all = take(reader, begun_bytes, mib);
    REQUIRE(setting.proxy->connections() == 2);
    setting.proxy->cut();
    all += take(reader, file_bytes, mib);
    CHECK((all == setting.data));
    CHECK(setting.proxy->connections() > 2);
}

TEST_CASE("a seek away from two connections, and a close, wait for nothing") {
    Setting setting;
    strait::Client client(setting.proxy->address(), setting.options);
    strait::Reader reader = client.open_reader("/large");
    take(reader, begun_bytes, mib);
    const auto start = std::chrono::steady_clock::now();
    reader.seek(12'345);
    CHECK((take(reader, begun_bytes, mib) == setting.data.substr(12'345, begun_bytes)));
    reader.close();
    CHECK(std::chrono::steady_clock::now() - start < setting.options.timeout / 2);
}

TEST_CASE("a forked child reads on beside its parent") {
    Setting setting;
    strait::Client client(setting.proxy->address(), setting.options);
    strait::Reader reader = client.open_reader("/large");
    REQUIRE((take(reader, begun_bytes, mib) == setting.data.substr(0, begun_bytes)));
    const pid_t child = ::fork();
    const bool rest = take(reader, file_bytes, mib) == setting.data.substr(begun_bytes);
    if (child == 0) {
        ::_exit(rest ? 0 : 1);
    }
    CHECK(rest);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
