/// Thrift's protocols, with payload received into the caller's memory.
#pragma once

#include <memory>

#include <strait/types.hpp>
#include <thrift/protocol/TProtocol.h>

#include "transport.hpp"

namespace strait::detail {

std::shared_ptr<apache::thrift::protocol::TProtocol>
protocol_of(Wire wire, const std::shared_ptr<Transport>& transport);

constexpr bool is_framed(Wire wire) {
    return wire == Wire::framed_binary || wire == Wire::framed_compact;
}

} // namespace strait::detail
