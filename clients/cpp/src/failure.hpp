/// Raising errors, and the failures that the session handles itself.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include <strait/errors.hpp>

namespace strait::detail {

/// Throws the exception class of the kind.
[[noreturn]] void raise(ErrorKind kind, const std::string& message, std::string_view path = {},
                        std::optional<bool> retry_safe = {});

/// Throws the error that a gateway reported: a code of ErrorCode, or a newer one.
[[noreturn]] void raise_reported(int code, const std::string& kind_name, const std::string& message,
                                 std::string_view path, std::optional<bool> retry_safe);

/// Throws the error of a request without a complete answer in time.
[[noreturn]] void raise_no_answer(const char* method, const std::string& gateway,
                                  std::chrono::milliseconds timeout);

/// Throws the error, with this path if it has none.
[[noreturn]] void raise_at(const Error& error, std::string_view path);

/// The connection broke. `sent`: a request may have arrived. `tls`: TLS is the cause, such as a
/// certificate that the gateway rejects. `unanswered`: it had never brought an answer.
struct ConnectionLost : std::exception {
    ConnectionLost(std::string reason, bool sent, bool tls = false, bool unanswered = false)
        : reason(std::move(reason)), sent(sent), tls(tls), unanswered(unanswered) {}
    const char* what() const noexcept override { return reason.c_str(); }

    std::string reason;
    bool sent, tls, unanswered;
};

/// The time limit passed without receiving, or without being able to send.
struct Silence : std::exception {};

} // namespace strait::detail
