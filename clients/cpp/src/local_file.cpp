#include "local_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace strait::detail {

LocalFile::LocalFile(const std::string& path, int flags, const std::string& name, int permission)
    : path_(name), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, permission)) {
    if (descriptor_ < 0) {
        fail("can't open");
    }
}

LocalFile LocalFile::open(const std::string& path) {
    return {path, O_RDONLY, path};
}
LocalFile LocalFile::open_to_write(const std::string& path) {
    return {path, O_WRONLY, path};
}
LocalFile LocalFile::create(const std::string& path, const std::string& name, int permission) {
    return {path, O_WRONLY | O_CREAT | O_EXCL, name, permission};
}
LocalFile::LocalFile(LocalFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

LocalFile::~LocalFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
}

std::size_t LocalFile::read(char* into, std::size_t size) {
    while (true) {
        const ssize_t count = ::read(descriptor_, into, size);
        if (count >= 0) {
            return static_cast<std::size_t>(count);
        }
        if (errno != EINTR) {
            fail("can't read");
        }
    }
}

void LocalFile::write(const char* data, std::size_t size) {
    while (size != 0) {
        const ssize_t count = ::write(descriptor_, data, size);
        if (count >= 0) {
            data += count;
            size -= static_cast<std::size_t>(count);
        } else if (errno != EINTR) {
            fail("can't write");
        }
    }
}

std::int64_t LocalFile::size() const {
    struct stat status {};
    return fstat(descriptor_, &status) == 0 ? status.st_size : 0;
}

int LocalFile::permission() const {
    struct stat status {};
    return fstat(descriptor_, &status) == 0 ? static_cast<int>(status.st_mode & 07777) : 0;
}

void LocalFile::close() {
    if (::close(std::exchange(descriptor_, -1)) != 0) {
        fail("can't close");
    }
}

void LocalFile::fail(const char* what) const {
    throw std::filesystem::filesystem_error(what, path_,
                                            std::error_code(errno, std::generic_category()));
}

int current_umask() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("Umask:", 0) == 0) {
            return std::stoi(line.substr(sizeof "Umask:"), nullptr, 8);
        }
    }
    // No /proc here. For a moment, new files of other threads are for their owner only.
    const mode_t mask = ::umask(077);
    ::umask(mask);
    return static_cast<int>(mask);
}

bool is_special(const std::string& path) {
    return std::filesystem::is_other(path);
}

bool exists_local(const std::string& path) {
    return std::filesystem::exists(std::filesystem::symlink_status(path));
}

bool rename_local_to_free(const std::string& from, const std::string& to) {
    // A rename replaces an existing file, a link doesn't.
    if (::link(from.c_str(), to.c_str()) == 0) {
        ::unlink(from.c_str());
        return true;
    }
    // On a file system without links, only another check is possible.
    if (errno == EEXIST || exists_local(to)) {
        return false;
    }
    rename_local(from, to);
    return true;
}

void rename_local(const std::string& from, const std::string& to) {
    std::filesystem::rename(from, to);
}

void remove_local(const std::string& path) noexcept {
    ::unlink(path.c_str());
}

} // namespace strait::detail
