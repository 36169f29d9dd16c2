#include "transfer.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <vector>

#include "failure.hpp"
#include "local_file.hpp"
#include "queue.hpp"
#include "read_ahead.hpp"

namespace strait::detail {
namespace {

// Chunks between the two sides: one being read, one being written, and two to even out their
// speeds.
constexpr std::size_t chunks = 4;

// Permission bits that a copy can get: a set-id bit belongs only to the original.
constexpr int permission_bits = 0777;
// Mode of a local file whose original has no permission bits, as on some stores.
constexpr int default_permission = 0666;

struct Chunk {
    std::vector<char> data;
    std::size_t size = 0;
};

using Read = std::function<std::size_t(char*, std::size_t)>;
using Write = std::function<void(const char*, std::size_t)>;

/// Calls `read` in a thread and `write` in this one until `read` returns no bytes.
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
    reading.get(); // rethrows its exception
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

/// In the directory of `path`. Doesn't contain its name, which may already have the maximum length.
std::string temporary_beside(std::string_view path, const char* prefix) {
    while (path.size() > 1 && path.back() == '/') {
        path.remove_suffix(1);
    }
    const std::string_view directory = path.substr(0, path.rfind('/') + 1);
    return std::string(directory) + prefix + hex(Session::new_request_id()).substr(0, 16);
}

void remove_quietly(Session& session, const std::string& temporary) {
    try {
        wire::RemovePathRequest request;
        request.__set_path(temporary);
        request.__set_recursive(false);
        session.mutate(request, temporary, session.parting());
    } catch (const std::exception&) {
        // The earlier error is the one to report.
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
        // Nothing to replace.
    }
    client.rename(temporary, remote);
}

/// The target itself or, if it is a directory, the path in it for the local file.
std::string within(Client& client, const std::string& local, std::string_view target) {
    try {
        if (!client.stat(target).is_directory()) {
            return std::string(target);
        }
    } catch (const NotFound&) {
        return std::string(target);
    }
    while (!target.empty() && target.back() == '/') {
        target.remove_suffix(1);
    }
    return std::string(target) + "/" + std::filesystem::path(local).filename().string();
}

void check_free(Client& client, const std::string& target, bool overwrite) {
    try {
        const FileInfo there = client.stat(target);
        if (!overwrite) {
            raise(ErrorKind::AlreadyExists, "the path is taken", target);
        }
        if (there.is_directory()) {
            raise(ErrorKind::IsADirectory, "the target is a directory", target);
        }
    } catch (const NotFound&) {
        // The name is free, as required.
    }
}

/// The original's permission bits, which the umask then limits, so that a copy never allows more.
int permission_of(Session& session, const std::string& path) {
    wire::GetFileInfoRequest request;
    request.__set_path(path);
    const auto reply = session.call(request, path);
    return reply.info.__isset.permission ? reply.info.permission & permission_bits
                                         : default_permission;
}

std::int64_t receive(Reader& reader, LocalFile& file, const Progress& progress) {
    const std::int64_t length = reader.length();
    const auto copied =
        copy([&](char* into, std::size_t size) { return reader.read(into, size); },
             [&](const char* data, std::size_t size) { file.write(data, size); }, length, progress);
    if (copied < length) {
        raise(ErrorKind::Busy, "read: the file became shorter while it was read", reader.path());
    }
    file.close();
    return copied;
}

void appear(const std::string& temporary, const std::string& local, bool overwrite) {
    if (overwrite) {
        rename_local(temporary, local);
    } else if (!rename_local_to_free(temporary, local)) {
        raise(ErrorKind::AlreadyExists, "the file is there already", local);
    }
}

} // namespace

std::int64_t get(Session& session, Reader& reader, const std::string& local,
                 const Progress& progress, bool overwrite) {
    if (is_special(local)) {
        LocalFile file = LocalFile::open_to_write(local);
        return receive(reader, file, progress);
    }
    if (!overwrite && exists_local(local)) {
        raise(ErrorKind::AlreadyExists, "the file is there already", local);
    }
    const std::string temporary = temporary_beside(local, ".strait-get-");
    LocalFile file = LocalFile::create(temporary, local, permission_of(session, reader.path()));
    try {
        const auto copied = receive(reader, file, progress);
        appear(temporary, local, overwrite);
        return copied;
    } catch (...) {
        remove_local(temporary);
        throw;
    }
}

std::int64_t put(Client& client, Session& session, const std::string& local,
                 std::string_view remote, const Progress& progress, bool overwrite) {
    LocalFile file = LocalFile::open(local);
    const std::string target = within(client, local, remote);
    check_free(client, target, overwrite);
    const std::string temporary = temporary_beside(target, ".strait-put-");
    bool written = false;
    try {
        CreateOptions options;
        options.permission = file.permission() & permission_bits & ~current_umask();
        Writer writer = client.create(temporary, options);
        const auto copied =
            copy([&](char* into, std::size_t size) { return file.read(into, size); },
                 [&](const char* data, std::size_t size) { writer.write(data, size); }, file.size(),
                 progress);
        writer.close();
        written = true;
        if (overwrite) {
            rename_over(client, temporary, target);
        } else {
            client.rename(temporary, target);
        }
        return copied;
    } catch (const Error& error) {
        remove_quietly(session, temporary);
        if (!written && error.kind() == ErrorKind::OutcomeUnknown) {
            // In any outcome, no part of it is visible under the target's name.
            raise(ErrorKind::Unavailable, error.message(), target);
        }
        if (error.path() == temporary && error.kind() != ErrorKind::Internal) {
            // The caller doesn't know the temporary name.
            raise(error.kind(), error.message(), target, error.retry_safe());
        }
        throw;
    } catch (...) {
        remove_quietly(session, temporary);
        throw;
    }
}

} // namespace strait::detail
