/// When a request is given up.
#pragma once

#include <chrono>

namespace strait::detail {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

} // namespace strait::detail
