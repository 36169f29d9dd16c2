/// A queue between two threads that can be closed.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

namespace strait::detail {

/// Not bounded here: its users only have a limited number of items.
template <class T>
class Queue {
public:
    void push(T item) {
        const std::lock_guard<std::mutex> lock(mutex_);
        items_.push_back(std::move(item));
        changed_.notify_one();
    }

    /// Waits for the next item; none if it is closed and empty.
    std::optional<T> pop() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
        if (items_.empty()) {
            return std::nullopt;
        }
        std::optional<T> item(std::move(items_.front()));
        items_.pop_front();
        return item;
    }

    void close() {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<T> items_;
    bool closed_ = false;
};

/// Closes the queue at the end of a scope, also after an exception.
template <class T>
class Closing {
public:
    explicit Closing(Queue<T>& queue) : queue_(queue) {}
    ~Closing() { queue_.close(); }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

private:
    Queue<T>& queue_;
};

} // namespace strait::detail
