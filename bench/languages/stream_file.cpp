/// stream_file read|write HOST:PORT PATH MIB [CA]
///
/// Reads a file of MIB MiB to its end, or writes one, with the C++ client:
/// pieces of 1 MiB that stay in memory. Connects, prints "ready", waits for a
/// line, works, prints "done". The other languages' programs do the same.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <strait/strait.hpp>

namespace {

void read_file(strait::Client& client, const std::string& path, std::int64_t mib) {
    strait::Reader reader = client.open_reader(path);
    std::vector<char> piece(1 << 20);
    std::int64_t bytes = 0;
    while (const std::size_t count = reader.read(piece.data(), piece.size())) {
        bytes += static_cast<std::int64_t>(count);
    }
    if (bytes != mib << 20) {
        throw std::runtime_error("another length: " + std::to_string(bytes));
    }
}

void write_file(strait::Client& client, const std::string& path, std::int64_t mib) {
    strait::Writer writer = client.create(path);
    const std::vector<char> piece(1 << 20, 7);
    for (std::int64_t n = 0; n < mib; n++) {
        writer.write(piece.data(), piece.size());
    }
    writer.close();
}

} // namespace

int main(int count, char** given) {
    try {
        const std::vector<std::string> arguments(given + 1, given + count);
        strait::Options options;
        if (arguments.size() > 4) {
            options.tls.emplace();
            options.tls->ca_file = arguments.at(4);
        }
        strait::Client client(arguments.at(1), options);
        std::cout << "ready" << std::endl;
        std::string go;
        std::getline(std::cin, go);
        const auto work = arguments.at(0) == "read" ? read_file : write_file;
        work(client, arguments.at(2), std::stoll(arguments.at(3)));
        std::cout << "done" << std::endl;
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "stream_file: %s\n", error.what());
        return 1;
    }
}
