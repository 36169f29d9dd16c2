#include "endpoint.hpp"

#include "failure.hpp"

namespace strait::detail {
namespace {

constexpr std::string_view scheme = "strait://";
constexpr std::string_view default_port = "9090";

[[noreturn]] void not_an_address(std::string_view address) {
    raise(ErrorKind::InvalidArgument,
          "not the address of a gateway, strait://host:port/: " + std::string(address));
}

} // namespace

Endpoint::Endpoint(std::string_view address, const Options& options) : options(options) {
    if (address.find('@') != address.npos) {
        // Not repeated in the message: it may hold a password.
        raise(ErrorKind::InvalidArgument, "an address names no user; log in with the options");
    }
    std::string_view rest = address;
    if (rest.substr(0, scheme.size()) == scheme) {
        rest.remove_prefix(scheme.size());
        if (!rest.empty() && rest.back() == '/') {
            rest.remove_suffix(1);
        }
    }
    const bool bracketed = !rest.empty() && rest.front() == '['; // [::1]:9090
    const std::size_t end = bracketed ? rest.find(']') : rest.find(':');
    if (bracketed && end == rest.npos) {
        not_an_address(address);
    }
    host = rest.substr(bracketed, end - bracketed);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + bracketed);
    port = rest.empty() ? default_port : rest.substr(1);
    const bool numeric = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == port.npos && std::stoi(port) > 0 &&
                         std::stoi(port) < 65536;
    if (host.empty() || host.find('/') != host.npos || (!rest.empty() && rest[0] != ':') ||
        !numeric) {
        not_an_address(address);
    }
}

} // namespace strait::detail
