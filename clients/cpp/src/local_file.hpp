/// A file of this machine; failures are std::filesystem::filesystem_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace strait::detail {

class LocalFile {
public:
    static LocalFile open(const std::string& path);
    /// An existing device or pipe, to be written directly.
    static LocalFile open_to_write(const std::string& path);
    /// A new file, whose errors give `name` as its path. Its mode is `permission`, less the umask.
    static LocalFile create(const std::string& path, const std::string& name, int permission);
    LocalFile(LocalFile&& other) noexcept;
    ~LocalFile();

    std::size_t read(char* into, std::size_t size);
    void write(const char* data, std::size_t size);
    std::int64_t size() const;
    int permission() const;
    void close();

private:
    LocalFile(const std::string& path, int flags, const std::string& name, int permission = 0);
    [[noreturn]] void fail(const char* what) const;

    std::string path_;
    int descriptor_;
};

/// This process's umask. No system call only reads it.
int current_umask();
/// Whether the path is something that a file can't replace.
bool is_special(const std::string& path);
/// Doesn't follow links: a link to nothing exists, too.
bool exists_local(const std::string& path);
void rename_local(const std::string& from, const std::string& to);
/// Renames if no file has the name yet, and returns whether it did.
bool rename_local_to_free(const std::string& from, const std::string& to);
void remove_local(const std::string& path) noexcept;

} // namespace strait::detail
