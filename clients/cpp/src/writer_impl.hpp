/// The implementation of a Writer.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <strait/writer.hpp>

#include "session.hpp"

namespace strait {

class Writer::Impl {
public:
    Impl(std::shared_ptr<detail::Session> session, std::string_view path,
         const detail::wire::OpenWriterReply& opened);
    ~Impl();

    void write(const char* data, std::size_t size);
    std::optional<int> flush(detail::wire::FlushMode::type mode);
    std::optional<int> close();

    std::int64_t position() const { return sent_ + static_cast<std::int64_t>(pending_.size()); }
    const std::string& path() const { return path_; }

private:
    using Append = detail::wire::AppendDataRequest;

    void check_usable() const;
    void send_pending();
    void settle(std::size_t leave);
    void take_reply();
    void drain();
    void renew();
    void repeat_all(detail::Deadline deadline);
    bool is_of(const Append& request, const detail::wire::AppendDataReply& reply) const;
    void expect(const detail::wire::AppendDataReply& reply, const Append& request) const;
    void done_with_first();
    void give_back();
    void abandon() noexcept;
    bool may_go_on(const Error& error) const;
    template <class Step>
    void guarded(Step step);
    template <class Step>
    void explained(Step step);

    const std::shared_ptr<detail::Session> session_;
    const std::string path_;
    const std::int64_t handle_;
    const std::int64_t incarnation_; // the session's when it was opened
    const pid_t process_;
    const std::size_t chunk_; // bytes of an append, whatever a later session allows
    std::int64_t sent_;       // the file's length with all appends
    std::string pending_;     // not yet a request
    // Appends without a reply, in order. The first `awaited_` of them are on their way on the
    // connection; the others have to be sent (again).
    std::deque<Append> kept_;
    std::size_t awaited_ = 0;
    std::string spare_;        // memory of an append that is done
    detail::Lease connection_; // while appends are on their way
    std::exception_ptr failure_;
    // Kind and message of the latest error, if the file goes on after it.
    std::optional<std::pair<ErrorKind, std::string>> refusal_;
    bool closed_ = false;
};

} // namespace strait
