#include "gateway.hpp"

#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <stdexcept>

#include <strait/client.hpp>

#include "waits.hpp"

namespace testing {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds stop_deadline(40);

/// A free port below Linux's range of ephemeral ports. Any outgoing connection may take a port of
/// that range, even the one that checks whether the gateway is ready.
int free_port() {
    static std::random_device device;
    std::uniform_int_distribution<int> ports(10000, 32767);
    while (true) {
        const int port = ports(device);
        const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        const bool bound =
            ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        ::close(listener);
        if (bound) {
            return port;
        }
    }
}

} // namespace

std::string command() {
    if (const char* named = std::getenv("STRAIT_BIN")) {
        return named;
    }
    const char* named = std::getenv("CARGO_TARGET_DIR");
    const fs::path target =
        named != nullptr ? fs::path(named) : fs::path(STRAIT_REPOSITORY) / "target";
    for (const char* profile : {"debug", "release"}) {
        if (fs::exists(target / profile / "strait")) {
            return target / profile / "strait";
        }
    }
    throw std::runtime_error("no gateway: build it (cargo build -p strait), or set STRAIT_BIN");
}

Scratch::Scratch() {
    std::string name = fs::temp_directory_path() / "strait-cpp-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
        throw std::runtime_error("no temporary directory");
    }
    path_ = name;
}

Scratch::~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

Gateway::Gateway(const std::string& store, std::vector<std::string> arguments,
                 const strait::Options& options)
    : Gateway(
          [&] {
              std::vector<std::string> all = {command(), "serve", "--store", store};
              all.insert(all.end(), arguments.begin(), arguments.end());
              return all;
          }(),
          options) {}

Gateway::Gateway(std::vector<std::string> all, const strait::Options& options)
    : address_("127.0.0.1:" + std::to_string(free_port())) {
    all.insert(all.end(), {"--listen", address_});
    std::vector<char*> given;
    for (std::string& argument : all) {
        given.push_back(argument.data());
    }
    given.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM); // should this program be killed
        const int nowhere = ::open("/dev/null", O_WRONLY);
        ::dup2(nowhere, STDOUT_FILENO);
        ::dup2(nowhere, STDERR_FILENO);
        ::execvp(given[0], given.data());
        ::_exit(127);
    }
    try {
        wait_until_ready(options);
    } catch (...) {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        throw;
    }
}

void Gateway::wait_until_ready(const strait::Options& options) {
    const bool ready = eventually([&] {
        try {
            strait::Client(address_, options);
            return true;
        } catch (const strait::Unavailable&) {
            if (::waitpid(process_, nullptr, WNOHANG) != 0) {
                throw std::runtime_error("the gateway ended at once");
            }
            return false;
        }
    });
    if (!ready) {
        throw std::runtime_error("the gateway doesn't answer");
    }
}

Gateway::~Gateway() {
    if (process_ < 0) {
        return;
    }
    ::kill(process_, SIGTERM);
    if (!eventually([&] { return ::waitpid(process_, nullptr, WNOHANG) != 0; }, stop_deadline)) {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
}

namespace {

// Beyond what datanodes leave free for others, 64 MiB.
constexpr long small_disk_bytes = 128 << 20;

/// In a mount namespace of its own, so that the mount ends with the process.
std::vector<std::string> up_on_a_small_disk(const Scratch& scratch) {
    const std::string disk = scratch / "disk", data = scratch / "data";
    fs::create_directory(disk);
    fs::create_directory(data);
    std::string script = "mount -t tmpfs -o size=" + std::to_string(small_disk_bytes) +
                         " strait-test " + disk + "; ";
    for (const char* number : {"1", "2", "3"}) {
        fs::create_symlink(disk + "/" + number, data + "/datanode-" + number);
        script += "mkdir " + disk + "/" + number + "; ";
    }
    return {"unshare", "--mount", "sh", "-ec",    script + "exec \"$@\"",
            "sh",      command(), "up", "--data", data};
}

} // namespace

Kadoop::Kadoop(const Scratch& scratch)
    : Gateway(std::vector<std::string>{command(), "up", "--data", scratch / "data"}) {}

KadoopOnASmallDisk::KadoopOnASmallDisk(const Scratch& scratch)
    : Gateway(up_on_a_small_disk(scratch)),
      ballast_("/proc/" + std::to_string(process()) + "/root" + (scratch / "disk/ballast")) {}

void KadoopOnASmallDisk::fill() const {
    const int file = ::open(ballast_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    off_t length = 0;
    for (const off_t step : {1 << 20, 4 << 10}) {
        while (::posix_fallocate(file, length, step) == 0) {
            length += step;
        }
    }
    ::close(file);
}

void KadoopOnASmallDisk::relieve() const {
    fs::remove(ballast_);
}

const std::string& shared_gateway() {
    static const Scratch scratch;
    static const Gateway gateway("file://" + scratch.path());
    return gateway.address();
}

std::string unique_path() {
    static std::atomic<int> count{0};
    return "/test-" + std::to_string(++count);
}

std::string pattern(std::size_t length, unsigned seed) {
    std::string bytes(length, '\0');
    for (std::size_t i = 0; i != length; ++i) {
        bytes[i] = static_cast<char>(seed + i + i / 251);
    }
    return bytes;
}

} // namespace testing
