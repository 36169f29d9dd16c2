#include <strait/uri.hpp>

#include <algorithm>
#include <vector>

#include "failure.hpp"

namespace strait {

using namespace detail;

namespace {

constexpr std::string_view scheme = "strait://";
constexpr int max_port = 65'535;
// The longest name that stores take, as in POSIX (NAME_MAX).
constexpr std::size_t max_name_bytes = 255;

[[noreturn]] void wrong(const std::string& why) {
    raise(ErrorKind::InvalidArgument,
          "not the address of a gateway, strait://host:port/@store: " + why);
}

int port_of(std::string_view digits, std::string_view authority) {
    int port = 0;
    const bool numeric =
        digits.size() <= 5 && digits.find_first_not_of("0123456789") == digits.npos;
    for (const char digit : numeric ? digits : std::string_view()) {
        port = 10 * port + (digit - '0');
    }
    if (!numeric || port < 1 || port > max_port) {
        wrong(std::string(authority) + " has a port that isn't one of 1 to 65535");
    }
    return port;
}

void parse_authority(std::string_view authority, Uri& uri) {
    if (authority.find('@') != authority.npos) {
        // The message doesn't repeat it: it may hold a password.
        raise(ErrorKind::InvalidArgument, "an address names no user; log in with the options");
    }
    std::string_view rest = authority;
    const bool bracketed = !rest.empty() && rest.front() == '['; // [::1]:9090
    const std::size_t end = rest.find(bracketed ? ']' : ':');
    uri.host = rest.substr(bracketed, end - (end == rest.npos ? 0 : bracketed));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + bracketed);
    const bool is_host = !uri.host.empty() &&
                         (bracketed || uri.host.find_first_of(" \t\r\n?#[]") == std::string::npos);
    if (!is_host || (bracketed && end == authority.npos) || (!rest.empty() && rest[0] != ':')) {
        wrong("'" + std::string(authority) + "' is no HOST:PORT");
    }
    if (rest.size() > 1) {
        uri.port = port_of(rest.substr(1), authority);
    }
}

std::vector<std::string> names_of(std::string_view path) {
    std::vector<std::string> names;
    while (!path.empty()) {
        const std::size_t end = std::min(path.find('/'), path.size());
        if (end != 0) {
            names.emplace_back(path.substr(0, end));
        }
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return names;
}

void check_name(const std::string& name, std::string_view text) {
    if (name == "." || name == ".." || name.size() > max_name_bytes ||
        name.find('\0') != name.npos) {
        wrong(std::string(text) + " has a name that is . or .., holds a NUL byte, or is " +
              "longer than " + std::to_string(max_name_bytes) + " bytes");
    }
}

} // namespace

Uri Uri::parse(std::string_view text) {
    if (text.substr(0, scheme.size()) != scheme) {
        // With an @, it may hold a password.
        const bool may_be_secret = text.find('@') != text.npos;
        wrong(std::string(may_be_secret ? "it" : text) + " doesn't begin with " +
              std::string(scheme));
    }
    const std::string_view rest = text.substr(scheme.size());
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    Uri uri;
    parse_authority(rest.substr(0, slash), uri);
    auto names = names_of(rest.substr(slash));
    if (!names.empty() && names.front().front() == '@') {
        names.front().erase(0, 1);
        if (names.front().empty() || names.front().front() != '@') {
            uri.store = names.front();
            if (uri.store.empty()) {
                wrong(std::string(text) + ": a store's name follows the @, as in /@lab; a " +
                      "directory called @ is /@@");
            }
            check_name(uri.store, text);
            names.erase(names.begin());
        }
    }
    for (const std::string& name : names) {
        check_name(name, text);
        uri.path += "/" + name;
    }
    if (uri.path.empty()) {
        uri.path = "/";
    }
    return uri;
}

std::string Uri::gateway() const {
    const bool bracketed = host.find(':') != host.npos;
    return std::string(scheme) + (bracketed ? "[" + host + "]" : host) + ":" +
           std::to_string(port) + "/" + (store.empty() ? "" : "@" + store);
}

} // namespace strait
