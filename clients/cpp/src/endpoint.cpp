#include "endpoint.hpp"

#include <strait/uri.hpp>

#include "failure.hpp"

namespace strait::detail {
namespace {

// Longer than any useful wait, and a sum with the time of day doesn't overflow.
constexpr std::chrono::milliseconds max_timeout = std::chrono::hours(366 * 24);

void check_timeout(std::chrono::milliseconds timeout) {
    if (timeout <= std::chrono::milliseconds::zero() || timeout > max_timeout) {
        raise(ErrorKind::InvalidArgument, "the timeout of " + std::to_string(timeout.count()) +
                                              " ms isn't above 0 and a year at most");
    }
}

} // namespace

Endpoint::Endpoint(std::string_view address, const Options& options) : options(options) {
    const bool has_scheme = address.find("://") != address.npos;
    const Uri uri = Uri::parse((has_scheme ? "" : "strait://") + std::string(address));
    if (uri.path != "/") {
        raise(ErrorKind::InvalidArgument,
              "an address ends with the gateway or its store, and has no path: " +
                  std::string(address));
    }
    if (!uri.store.empty() && !options.store.empty() && uri.store != options.store) {
        raise(ErrorKind::InvalidArgument, "the address names the store " + uri.store +
                                              ", and the option names " + options.store +
                                              "; give one");
    }
    check_timeout(options.timeout);
    check_timeout(options.connect_timeout);
    host = uri.host;
    port = std::to_string(uri.port);
    if (!uri.store.empty()) {
        this->options.store = uri.store;
    }
}

std::string Endpoint::address() const {
    return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + port;
}

} // namespace strait::detail
