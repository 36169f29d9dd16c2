#include "transfer.hpp"

#include <algorithm>
#include <functional>
#include <future>
#include <vector>

#include "failure.hpp"
#include "local_file.hpp"
#include "queue.hpp"
#include "read_ahead.hpp"

namespace strait::detail {
namespace {

// Chunks between the two sides: one being read, one being written, and two to
// even out their speeds.
constexpr std::size_t chunks = 4;

struct Chunk {
    std::vector<char> data;
    std::size_t size = 0;
};

using Read = std::function<std::size_t(char*, std::size_t)>;
using Write = std::function<void(const char*, std::size_t)>;

/// Calls `read` in a thread and `write` in this one until `read` gives nothing.
std::int64_t copy(const Read& read, const Write& write, std::int64_t total,
                  const Progress& progress) {
    Queue<Chunk> empty, full;
    for (std::size_t n = 0; n != chunks; ++n) {
        empty.push({std::vector<char>(chunk_bytes)});
    }
    auto reading = std::async(std::launch::async, [&] {
        const Closing closing(full);
        while (auto chunk = empty.pop()) {
            chunk->size = read(chunk->data.data(), chunk->data.size());
            if (chunk->size == 0) {
                return;
            }
            full.push(std::move(*chunk));
        }
    });
    const Closing closing(empty); // before waiting for the thread, also after a failure
    std::int64_t copied = 0;
    while (auto chunk = full.pop()) {
        write(chunk->data.data(), chunk->size);
        copied += static_cast<std::int64_t>(chunk->size);
        if (progress) {
            progress(copied, std::max(total, copied));
        }
        empty.push(std::move(*chunk));
    }
    reading.get(); // throws what it threw
    return copied;
}

std::string hex(const std::string& bytes) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const char byte : bytes) {
        text += digits[static_cast<unsigned char>(byte) >> 4];
        text += digits[static_cast<unsigned char>(byte) & 15];
    }
    return text;
}

/// In the directory of `path`, and not made of its name, which may be as long as a name can be.
std::string temporary_beside(std::string_view path, const char* prefix) {
    while (path.size() > 1 && path.back() == '/') {
        path.remove_suffix(1);
    }
    const std::string_view directory = path.substr(0, path.rfind('/') + 1);
    return std::string(directory) + prefix + hex(Session::new_request_id()).substr(0, 16);
}

void remove_quietly(Client& client, const std::string& temporary) {
    try {
        client.remove(temporary);
    } catch (const std::exception&) {
        // The error before is the one to tell.
    }
}

void rename_over(Client& client, const std::string& temporary, std::string_view remote) {
    if (client.store().can("rename_replace")) {
        client.rename(temporary, remote, true);
        return;
    }
    try {
        client.remove(remote);
    } catch (const NotFound&) {
        // The better.
    }
    client.rename(temporary, remote);
}

} // namespace

std::int64_t get(Client& client, std::string_view remote, const std::string& local,
                 const Progress& progress) {
    Reader reader = client.open_reader(remote);
    const auto copy_to = [&](LocalFile& file) {
        const auto copied =
            copy([&](char* into, std::size_t size) { return reader.read(into, size); },
                 [&](const char* data, std::size_t size) { file.write(data, size); },
                 reader.length(), progress);
        file.close();
        return copied;
    };
    if (is_special(local)) {
        LocalFile file = LocalFile::open_to_write(local);
        return copy_to(file);
    }
    const std::string temporary = temporary_beside(local, ".strait-get-");
    LocalFile file = LocalFile::create(temporary);
    try {
        const auto copied = copy_to(file);
        rename_local(temporary, local);
        return copied;
    } catch (...) {
        remove_local(temporary);
        throw;
    }
}

std::int64_t put(Client& client, const std::string& local, std::string_view remote,
                 const Progress& progress, bool overwrite) {
    LocalFile file = LocalFile::open(local);
    try {
        if (client.stat(remote).is_directory()) {
            raise(ErrorKind::IsADirectory, "a file was to be put here", remote);
        }
        if (!overwrite) {
            raise(ErrorKind::AlreadyExists, "the path is taken", remote);
        }
    } catch (const NotFound&) {
        // As it should be.
    }
    const std::string temporary = temporary_beside(remote, ".strait-put-");
    bool written = false;
    try {
        Writer writer = client.create(temporary);
        const auto copied =
            copy([&](char* into, std::size_t size) { return file.read(into, size); },
                 [&](const char* data, std::size_t size) { writer.write(data, size); }, file.size(),
                 progress);
        writer.close();
        written = true;
        if (overwrite) {
            rename_over(client, temporary, remote);
        } else {
            client.rename(temporary, remote);
        }
        return copied;
    } catch (const Error& error) {
        remove_quietly(client, temporary);
        if (!written && error.kind() == ErrorKind::OutcomeUnknown) {
            // Whatever came of it, nothing of it is to be seen under the target's name.
            raise(ErrorKind::Unavailable, error.message(), remote);
        }
        if (error.path() == temporary && error.kind() != ErrorKind::Internal) {
            // Nobody knows that name.
            raise(error.kind(), error.message(), remote, error.retry_safe());
        }
        throw;
    } catch (...) {
        remove_quietly(client, temporary);
        throw;
    }
}

} // namespace strait::detail
