/// Waits for events, and pauses that name their reason: the only sleeps of these tests.
///
/// The counterpart of the test kit's `wait.rs`. `scripts/sleeps.py` rejects sleeps elsewhere.
#pragma once

#include <chrono>
#include <thread>

namespace testing {

/// Longest wait for an event. Only failing tests wait so long.
constexpr std::chrono::seconds event_deadline(60);

/// Pauses this thread. The reason is for the reader: an event to wait for would be better.
inline void pause(const char*, std::chrono::milliseconds duration) {
    std::this_thread::sleep_for(duration);
}

/// Waits until the condition holds, and returns whether it does: false after the limit.
template <typename Condition>
bool eventually(const Condition& holds, std::chrono::seconds limit = event_deadline) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!holds()) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        // Short beside a start-up, and long enough to leave the cores free.
        pause("between two looks", std::chrono::milliseconds(10));
    }
    return true;
}

} // namespace testing
