/// URIs of the scheme strait: a gateway, one of its stores, and a path in it.
#pragma once

#include <string>
#include <string_view>

#include <strait/export.hpp>

namespace strait {

/// The parts of `strait://host:port/@store/path`. Nothing is decoded: a percent sign is an ordinary
/// character.
struct STRAIT_EXPORT Uri {
    std::string host; ///< A name or an IP address, without brackets.
    int port = 9090;
    std::string store; ///< Empty: the gateway's default store.
    std::string path;  ///< Absolute in the store.

    /// Parses a URI; throws InvalidArgument if `text` isn't one. A first component `@NAME`
    /// names a store. One that begins with `@@` names a directory of the default store,
    /// whose name has one `@` less.
    static Uri parse(std::string_view text);
    /// The address of the gateway and store, for Client.
    std::string gateway() const;
};

} // namespace strait
