/// The address and options of a gateway.
#pragma once

#include <string>
#include <string_view>

#include <strait/types.hpp>

namespace strait::detail {

struct Endpoint {
    /// Parses `strait://host:port/`, maybe with `@store`, or `host:port`; throws InvalidArgument.
    Endpoint(std::string_view address, const Options& options);

    /// Host and port, for messages.
    std::string address() const;

    std::string host, port;
    Options options;
};

} // namespace strait::detail
