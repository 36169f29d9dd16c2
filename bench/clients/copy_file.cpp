/// copy_file get|put GATEWAY REMOTE LOCAL [--blocking BYTES] [--ca FILE]
///
/// Copies one file with the C++ client, as suites time it: connects, prints
/// "ready", waits for a line, copies, prints "done". A LOCAL of - is memory:
/// pieces of 1 MiB, thrown away. With --blocking each piece is a request that
/// waits for its reply and is written before the next, as in the report's
/// programs.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <strait/strait.hpp>

namespace {

struct Arguments {
    std::string action, gateway, remote, local, ca;
    std::size_t blocking = 0;
};

Arguments parse(const std::vector<std::string>& given) {
    if (given.size() < 4 || given.size() % 2 != 0) {
        throw std::invalid_argument(
            "usage: copy_file get|put GATEWAY REMOTE LOCAL [--blocking BYTES] [--ca FILE]");
    }
    Arguments arguments{given[0], given[1], given[2], given[3], "", 0};
    for (std::size_t n = 4; n < given.size(); n += 2) {
        if (given[n] == "--blocking") {
            arguments.blocking = std::stoul(given[n + 1]);
        } else if (given[n] == "--ca") {
            arguments.ca = given[n + 1];
        } else {
            throw std::invalid_argument("no option " + given[n]);
        }
    }
    return arguments;
}

void read_to_memory(strait::Client& client, const Arguments& arguments) {
    strait::Reader reader = client.open_reader(arguments.remote);
    std::vector<char> piece(arguments.blocking != 0 ? arguments.blocking : std::size_t{1} << 20);
    if (arguments.blocking == 0) {
        while (reader.read(piece.data(), piece.size()) != 0) {
        }
        return;
    }
    for (std::int64_t done = 0; done < reader.length();) {
        done += static_cast<std::int64_t>(reader.read_at(done, piece.data(), piece.size()));
    }
}

void get_blocking(strait::Client& client, const Arguments& arguments) {
    strait::Reader reader = client.open_reader(arguments.remote);
    std::ofstream local;
    // Each piece goes to the file by itself, as a FileOutputStream's does.
    local.rdbuf()->pubsetbuf(nullptr, 0);
    local.open(arguments.local, std::ios::binary | std::ios::trunc);
    std::vector<char> piece(arguments.blocking);
    for (std::int64_t done = 0; done < reader.length();) {
        const std::size_t count = reader.read_at(done, piece.data(), piece.size());
        local.write(piece.data(), static_cast<std::streamsize>(count));
        done += static_cast<std::int64_t>(count);
    }
    local.close();
    if (!local) {
        throw std::runtime_error("can't write " + arguments.local);
    }
}

void copy(strait::Client& client, const Arguments& arguments) {
    if (arguments.action == "put") {
        client.put(arguments.local, arguments.remote, {}, true);
    } else if (arguments.local == "-") {
        read_to_memory(client, arguments);
    } else if (arguments.blocking != 0) {
        get_blocking(client, arguments);
    } else {
        client.get(arguments.remote, arguments.local, {}, true);
    }
}

} // namespace

int main(int count, char** given) {
    try {
        const Arguments arguments = parse(std::vector<std::string>(given + 1, given + count));
        strait::Options options;
        if (!arguments.ca.empty()) {
            options.tls.emplace();
            options.tls->ca_file = arguments.ca;
        }
        strait::Client client(arguments.gateway, options);
        std::cout << "ready" << std::endl;
        std::string go;
        std::getline(std::cin, go);
        copy(client, arguments);
        std::cout << "done" << std::endl;
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "copy_file: %s\n", error.what());
        return 1;
    }
}
