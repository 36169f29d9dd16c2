/// A file of this machine; failures are std::filesystem::filesystem_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace strait::detail {

class LocalFile {
public:
    static LocalFile open(const std::string& path);
    /// What is there already, to be written as it stands: a device, a pipe.
    static LocalFile open_to_write(const std::string& path);
    /// A new file, which errors call `name`.
    /// Its mode is `permission`, less the umask.
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

/// This process's, which no system call only looks at.
int current_umask();
/// Whether something is there that a file can't take the place of.
bool is_special(const std::string& path);
/// Without following links: one that leads nowhere has its name.
bool exists_local(const std::string& path);
void rename_local(const std::string& from, const std::string& to);
/// Renames if nothing has the name yet; whether that was so.
bool rename_local_to_free(const std::string& from, const std::string& to);
void remove_local(const std::string& path) noexcept;

} // namespace strait::detail
