/// get and put: all or nothing, with progress.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include <strait/client.hpp>

#include "support/gateway.hpp"
#include "support/proxy.hpp"

using namespace testing;

namespace {

const std::string& data() {
    static const std::string bytes = pattern((7 << 20) + 99);
    return bytes;
}

std::string local_content(const std::string& path) {
    std::ostringstream all;
    all << std::ifstream(path, std::ios::binary).rdbuf();
    return all.str();
}

void make_local(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
}

std::ptrdiff_t entries(strait::Client& client, const std::string& path) {
    strait::Listing listing = client.list(path);
    return std::distance(listing.begin(), listing.end());
}

std::ptrdiff_t local_entries(const Scratch& scratch) {
    return std::distance(std::filesystem::directory_iterator(scratch.path()), {});
}

} // namespace

TEST_CASE("what was put is what one gets, with progress to the end") {
    strait::Client client(shared_gateway());
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, data().size()}) {
        CAPTURE(size);
        const Scratch scratch;
        const std::string remote = unique_path() + "/deep/file", content = data().substr(0, size);
        make_local(scratch / "from", content);
        std::vector<std::pair<std::int64_t, std::int64_t>> seen;
        const auto record = [&](std::int64_t done, std::int64_t total) {
            seen.emplace_back(done, total);
        };
        const auto length = static_cast<std::int64_t>(size);
        CHECK(client.put(scratch / "from", remote, record) == length);
        CHECK(client.stat(remote).length == length);
        CHECK(client.get(remote, scratch / "to", record) == length);
        CHECK((local_content(scratch / "to") == content));
        for (const auto& [done, total] : seen) {
            CHECK(done <= total);
            CHECK(total == length);
        }
        CHECK((size == 0 || seen.back().first == length));
    }
}

TEST_CASE("a failed get names the file that was wanted") {
    const Scratch scratch;
    strait::Client client(shared_gateway());
    const std::string remote = unique_path() + "/file", wanted = scratch / "nodir/x";
    make_local(scratch / "from", "data");
    client.put(scratch / "from", remote);
    try {
        client.get(remote, wanted);
        FAIL("there is no such directory");
    } catch (const std::exception& error) {
        CHECK(std::string(error.what()).find(wanted) != std::string::npos);
        CHECK(std::string(error.what()).find(".strait-get-") == std::string::npos);
    }
}

TEST_CASE("put goes into a directory, and replaces a file only if told to, a directory never") {
    const Scratch scratch;
    strait::Client client(shared_gateway());
    const std::string directory = unique_path(), remote = directory + "/file";
    make_local(scratch / "one", "one");
    make_local(scratch / "two", "two");
    client.put(scratch / "one", remote);
    CHECK_THROWS_AS(client.put(scratch / "two", remote), strait::AlreadyExists);
    CHECK(client.open_reader(remote).read_all() == "one");
    client.put(scratch / "two", remote, {}, true);
    CHECK(client.open_reader(remote).read_all() == "two");
    client.put(scratch / "one", directory);
    CHECK(client.open_reader(directory + "/one").read_all() == "one");
    CHECK_THROWS_AS(client.put(scratch / "one", directory + "/"), strait::AlreadyExists);
    client.mkdirs(directory + "/two");
    CHECK_THROWS_AS(client.put(scratch / "two", directory, {}, true), strait::IsADirectory);
    CHECK(entries(client, directory) == 3);
}

TEST_CASE("get replaces a file only if told to, and a device never") {
    const Scratch scratch;
    strait::Client client(shared_gateway());
    const std::string remote = unique_path();
    make_local(scratch / "file", "new");
    client.put(scratch / "file", remote);
    make_local(scratch / "file", "old");
    CHECK_THROWS_AS(client.get(remote, scratch / "file"), strait::AlreadyExists);
    CHECK(local_content(scratch / "file") == "old");
    std::filesystem::create_symlink("nowhere", scratch / "link");
    CHECK_THROWS_AS(client.get(remote, scratch / "link"), strait::AlreadyExists);
    client.get(remote, scratch / "file", {}, true);
    CHECK(local_content(scratch / "file") == "new");
    CHECK(client.get(remote, "/dev/null") == 3);
    CHECK(std::filesystem::is_character_file("/dev/null"));
    CHECK(local_entries(scratch) == 2);
}

TEST_CASE("get doesn't replace what appeared meanwhile") {
    const Scratch scratch;
    strait::Client client(shared_gateway());
    const std::string remote = unique_path();
    make_local(scratch / "file", "theirs");
    client.put(scratch / "file", remote);
    const auto appear = [&](std::int64_t, std::int64_t) { make_local(scratch / "to", "mine"); };
    CHECK_THROWS_AS(client.get(remote, scratch / "to", appear), strait::AlreadyExists);
    CHECK(local_content(scratch / "to") == "mine");
    CHECK(local_entries(scratch) == 2);
}

TEST_CASE("a failed copy leaves nothing, and what was there") {
    const Scratch scratch;
    strait::Client client(shared_gateway());
    const std::string directory = unique_path(), remote = directory + "/file";
    make_local(scratch / "file", data());
    client.put(scratch / "file", remote);
    struct Enough : std::exception {};
    const auto stop = [](std::int64_t done, std::int64_t) {
        if (done > 3'000'000) {
            throw Enough();
        }
    };
    make_local(scratch / "file", "kept");
    CHECK_THROWS_AS(client.get(remote, scratch / "file", stop, true), Enough);
    CHECK(local_content(scratch / "file") == "kept");
    CHECK(local_entries(scratch) == 1);

    make_local(scratch / "file", pattern(5'000'000, 9));
    CHECK_THROWS_AS(client.put(scratch / "file", remote, stop, true), Enough);
    CHECK((client.open_reader(remote).read_all() == data()));
    CHECK(entries(client, directory) == 1);

    CHECK_THROWS_AS(client.get("/missing", scratch / "none"), strait::NotFound);
    CHECK_THROWS_AS(client.put(scratch / "none", remote), std::filesystem::filesystem_error);
    CHECK(local_entries(scratch) == 1);
}

TEST_CASE("get writes to a pipe or a device without taking its place") {
    const Scratch scratch;
    strait::Client client(shared_gateway());
    const std::string remote = unique_path(), pipe = scratch / "pipe";
    make_local(scratch / "from", "through");
    client.put(scratch / "from", remote);
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(client.get(remote, pipe) == 7);
    CHECK(std::filesystem::is_fifo(pipe));
    std::string got(8, '\0');
    CHECK(::read(reader, got.data(), got.size()) == 7);
    CHECK(got.substr(0, 7) == "through");
    ::close(reader);
}

TEST_CASE("copies go on over broken connections") {
    const Scratch scratch;
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    const std::string remote = unique_path();
    make_local(scratch / "from", data());
    proxy.cut_requests_after(4'000'000);
    client.put(scratch / "from", remote);
    proxy.cut_replies_after(4'000'000);
    client.get(remote, scratch / "to");
    CHECK(proxy.cuts() == 2);
    CHECK((local_content(scratch / "to") == data()));
}

TEST_CASE("a put that a restart of the gateway ends has put nothing, and says so of the target") {
    const Scratch scratch, elsewhere;
    const Gateway second("file://" + elsewhere.path());
    Proxy proxy(shared_gateway());
    strait::Client client(proxy.address());
    const std::string remote = unique_path();
    make_local(scratch / "from", data());
    const auto restart = [&](std::int64_t, std::int64_t) {
        proxy.redirect(second.address());
        proxy.cut();
    };
    try {
        client.put(scratch / "from", remote, restart);
        FAIL("the gateway that had the first bytes is gone");
    } catch (const strait::Unavailable& error) { // a new try does no harm
        CHECK(error.path() == remote);
        CHECK(error.retry_safe());
    }
}

TEST_CASE("a copy keeps the narrower of mode and umask") {
    struct Case {
        mode_t umask, mode, copied;
    };
    strait::Client client(shared_gateway());
    const mode_t before = ::umask(022);
    for (const auto& [mask, mode, copied] : {Case{022, 0600, 0600}, Case{022, 0666, 0644},
                                             Case{077, 0755, 0700}, Case{0, 04755, 0755}}) {
        ::umask(mask);
        const Scratch scratch;
        const std::string original = scratch / "original", back = scratch / "back",
                          path = unique_path();
        std::ofstream(original) << "secret";
        REQUIRE(::chmod(original.c_str(), mode) == 0);
        client.put(original, path);
        CHECK(client.stat(path).permission == static_cast<int>(copied));
        strait::Attributes attributes;
        attributes.permission = static_cast<int>(mode & 0777);
        client.set_attributes(path, attributes);
        client.get(path, back);
        struct stat status {};
        REQUIRE(::stat(back.c_str(), &status) == 0);
        CHECK((status.st_mode & 07777) == copied);
    }
    ::umask(before);
}
