/// The time at which a request times out.
#pragma once

#include <chrono>

namespace strait::detail {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

} // namespace strait::detail
