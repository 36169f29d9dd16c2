/// The implementation of a Reader.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <strait/reader.hpp>

#include "striped_read.hpp"

namespace strait {

class Reader::Impl {
public:
    /// `window` requests in flight from the first sequential read on: the largest number if the
    /// caller wants all of the file.
    Impl(std::shared_ptr<detail::Session> session, std::string_view path, std::size_t window = 1);
    ~Impl();

    std::size_t read_some(char* into, std::size_t size);
    std::size_t read(char* into, std::size_t size);
    std::size_t read_at(std::int64_t offset, char* into, std::size_t size);
    void seek(std::int64_t offset);
    void close() noexcept;

    std::int64_t position() const { return position_; }
    std::int64_t length() const { return length_; }
    const std::string& path() const { return path_; }

private:
    void open(std::optional<detail::Deadline> deadline = {});
    void check_open() const;
    std::size_t chunk() const;
    std::size_t read_ahead(char* into, std::size_t size, detail::Deadline deadline);
    std::size_t read_once(std::int64_t offset, char* into, std::size_t size,
                          detail::Deadline deadline);
    std::size_t request_range(std::int64_t offset, char* into, std::size_t size,
                              detail::Deadline deadline);

    const std::shared_ptr<detail::Session> session_;
    const std::string path_;
    const std::size_t window_;
    const pid_t process_;
    std::mutex opening_;
    std::atomic<std::int64_t> handle_{0}, length_{0};
    std::string identity_; // empty where the store can't tell
    std::int64_t position_ = 0;
    std::int64_t sequential_from_ = -1; // a read at this position continues the one before
    std::optional<detail::StripedRead> ahead_;
    bool closed_ = false;
};

} // namespace strait
