/// One login at a time, whose outcome serves all threads that wait for it.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "deadline.hpp"
#include "failure.hpp"

namespace strait::detail {

class LoginInTurn {
public:
    /// Runs `log_in`, or waits for the thread that runs it already, and throws that thread's error.
    /// Throws Silence if it takes too long.
    template <class Step>
    void run(Deadline deadline, Step log_in) {
        const auto attempt = join();
        if (attempt.second) {
            lead(*attempt.first, log_in);
        } else {
            follow(*attempt.first, deadline);
        }
    }

private:
    struct Attempt {
        bool over = false;
        std::exception_ptr failure;
    };

    std::pair<std::shared_ptr<Attempt>, bool> join() {
        const std::lock_guard<std::mutex> lock(mutex_);
        const bool is_ours = attempt_ == nullptr;
        if (is_ours) {
            attempt_ = std::make_shared<Attempt>();
        }
        return {attempt_, is_ours};
    }

    template <class Step>
    void lead(Attempt& attempt, Step log_in) {
        try {
            log_in();
        } catch (...) {
            attempt.failure = std::current_exception();
        }
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            attempt.over = true;
            attempt_.reset();
        }
        over_.notify_all();
        if (attempt.failure) {
            std::rethrow_exception(attempt.failure);
        }
    }

    void follow(const Attempt& attempt, Deadline deadline) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!over_.wait_until(lock, deadline, [&] { return attempt.over; })) {
            throw Silence();
        }
        if (attempt.failure) {
            std::rethrow_exception(attempt.failure);
        }
    }

    std::mutex mutex_;
    std::condition_variable over_;
    std::shared_ptr<Attempt> attempt_;
};

} // namespace strait::detail
