/// strait-get: reads a remote file, and prints the speed.
///
///     strait-get ADDRESS PATH [--to FILE] [--read BYTES] [--blocking]
///
/// Reads into memory in pieces of BYTES (1 MiB), or copies to FILE. With --blocking each piece is a
/// separate request that waits for its reply.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <strait/strait.hpp>

namespace {

struct Arguments {
    std::string address, path, to;
    std::size_t read = 1 << 20;
    bool blocking = false;
};

bool parse(int count, char** given, Arguments& arguments) {
    int named = 0;
    for (int n = 1; n < count; ++n) {
        const std::string text = given[n];
        if (text == "--blocking") {
            arguments.blocking = true;
        } else if (text == "--to" && n + 1 < count) {
            arguments.to = given[++n];
        } else if (text == "--read" && n + 1 < count) {
            arguments.read = std::stoul(given[++n]);
        } else {
            (named++ == 0 ? arguments.address : arguments.path) = text;
        }
    }
    return named == 2 && arguments.read != 0;
}

std::int64_t fetch(strait::Client& client, const Arguments& arguments) {
    if (!arguments.to.empty()) {
        return client.get(arguments.path, arguments.to);
    }
    strait::Reader reader = client.open_reader(arguments.path);
    std::vector<char> piece(arguments.read);
    std::int64_t done = 0;
    while (true) {
        const std::size_t count = arguments.blocking
                                      ? reader.read_at(done, piece.data(), piece.size())
                                      : reader.read(piece.data(), piece.size());
        if (count == 0) {
            return done;
        }
        done += static_cast<std::int64_t>(count);
    }
}

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

} // namespace

int main(int count, char** given) {
    Arguments arguments;
    if (!parse(count, given, arguments)) {
        std::fprintf(stderr,
                     "usage: strait-get ADDRESS PATH [--to FILE] [--read BYTES] [--blocking]\n");
        return 2;
    }
    try {
        strait::Client client(arguments.address);
        const auto start = std::chrono::steady_clock::now();
        const std::int64_t bytes = fetch(client, arguments);
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
        std::printf("%lld bytes in %.3f s: %.0f MB/s, %.2f s of CPU\n",
                    static_cast<long long>(bytes), time.count(),
                    static_cast<double>(bytes) / 1e6 / time.count(), cpu_seconds());
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "strait-get: %s\n", error.what());
        return 1;
    }
}
