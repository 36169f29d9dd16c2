/// The implementation of a Writer.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <string>

#include <strait/writer.hpp>

#include "session.hpp"

namespace strait {

class Writer::Impl {
public:
    Impl(std::shared_ptr<detail::Session> session, std::string_view path,
         const detail::wire::OpenWriterReply& opened);
    ~Impl();

    void write(const char* data, std::size_t size);
    void flush(detail::wire::FlushMode::type mode);
    void close();

    std::int64_t position() const { return sent_ + static_cast<std::int64_t>(pending_.size()); }
    const std::string& path() const { return path_; }

private:
    using Append = detail::wire::AppendDataRequest;

    void check_usable() const;
    void send_pending();
    void collect(std::size_t leave);
    void repeat_all(detail::Deadline deadline);
    void expect(const detail::wire::AppendDataReply& reply, const Append& request) const;
    void done_with_first();
    void close_handle();
    template <class Step>
    void guarded(Step step);
    template <class Step>
    void explained(Step step) const;

    const std::shared_ptr<detail::Session> session_;
    const std::string path_;
    const std::int64_t handle_;
    const std::int64_t incarnation_; // the session's when it was opened
    const pid_t process_;
    std::int64_t sent_;            // the file's length with all that was sent
    std::string pending_;          // not yet a request
    std::deque<Append> in_flight_; // kept until the reply, for a repetition
    std::string spare_;            // memory of an append that is done
    detail::Lease connection_;     // while appends are in flight
    std::exception_ptr failure_;
    bool closed_ = false;
};

} // namespace strait
