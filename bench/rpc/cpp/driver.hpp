// The common part of the clients, as in ../src/lib.rs, which says how a driver
// uses them.
#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace driver {

using Clock = std::chrono::steady_clock;

/// However long they take, each caller makes as many calls.
constexpr std::size_t kLeastCalls = 3;

/// One caller: what it calls by is its own.
class Caller {
public:
    virtual ~Caller() = default;
    /// Before each order's first call.
    virtual void begin() {}
    virtual void call(const std::string& argument) = 0;
};

using Connect = std::function<std::unique_ptr<Caller>(const std::string& mode)>;

struct Order {
    std::string mode;
    std::size_t bytes = 0;
    std::size_t callers = 0;
    long milliseconds = 0;
    long gap_us = 0;
};

struct Run {
    Clock::time_point start, end;
    std::vector<double> took_us;
    std::exception_ptr failed;
};

/// The first call isn't counted: it wakes up what has slept since the last
/// order.
inline void run_one(const Order& order, const std::string& argument, Caller& caller,
                    std::barrier<>& together, Run& run) {
    try {
        caller.begin();
        caller.call(argument);
    } catch (...) {
        run.failed = std::current_exception();
    }
    together.arrive_and_wait();
    if (run.failed)
        return;
    try {
        run.start = run.end = Clock::now();
        auto least = std::chrono::milliseconds(order.milliseconds);
        while (run.end - run.start < least || run.took_us.size() < kLeastCalls) {
            caller.call(argument);
            auto then = Clock::now();
            run.took_us.push_back(
                std::chrono::duration<double, std::micro>(then - run.end).count());
            run.end = then;
            if (order.gap_us > 0) {
                std::this_thread::sleep_for(std::chrono::microseconds(order.gap_us));
                run.end = Clock::now();
            }
        }
    } catch (...) {
        run.failed = std::current_exception();
    }
}

/// That this process has used so far.
inline double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

inline void obey(const Order& order, std::vector<std::unique_ptr<Caller>>& callers) {
    const double cpu_before = cpu_seconds();
    const std::string argument(order.bytes, 'Z');
    std::barrier<> together(static_cast<std::ptrdiff_t>(order.callers));
    std::vector<Run> runs(order.callers);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < order.callers; ++i)
        threads.emplace_back([&, i] { run_one(order, argument, *callers[i], together, runs[i]); });
    for (auto& thread : threads)
        thread.join();

    std::vector<double> took_us;
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    auto start = Clock::time_point::max(), end = Clock::time_point::min();
    for (auto& run : runs) {
        if (run.failed)
            std::rethrow_exception(run.failed);
        start = std::min(start, run.start);
        end = std::max(end, run.end);
        fewest = std::min(fewest, run.took_us.size());
        took_us.insert(took_us.end(), run.took_us.begin(), run.took_us.end());
    }
    std::sort(took_us.begin(), took_us.end());
    auto share = [&](std::size_t percent) { return took_us[(took_us.size() - 1) * percent / 100]; };
    std::printf("{\"calls\":%zu,\"seconds\":%.9f,\"p50_us\":%.3f,\"p99_us\":%.3f,\"worst_us\":%.3f,"
                "\"fewest_calls\":%zu,\"cpu_seconds\":%.9f}\n",
                took_us.size(), std::chrono::duration<double>(end - start).count(), share(50),
                share(99), share(100), fewest, cpu_seconds() - cpu_before);
    std::fflush(stdout);
}

/// Reads orders until they end.
inline void drive(const Connect& connect) {
    std::map<std::string, std::vector<std::unique_ptr<Caller>>> kept;
    for (std::string line; std::getline(std::cin, line);) {
        Order order;
        std::istringstream words(line);
        if (!(words >> order.mode >> order.bytes >> order.callers >> order.milliseconds >>
              order.gap_us))
            throw std::runtime_error("not an order: " + line);
        auto& callers = kept[order.mode];
        while (callers.size() < order.callers)
            callers.push_back(connect(order.mode));
        obey(order, callers);
    }
}

struct Address {
    std::string host;
    std::uint16_t port;
};

inline Address parse(const std::string& text) {
    auto colon = text.rfind(':');
    if (colon == std::string::npos)
        throw std::runtime_error("not an address: " + text);
    return {text.substr(0, colon), static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1)))};
}

/// Runs one of the two, as the first argument says.
inline int run(int argc, char** argv, const std::function<void(const Address&)>& serve,
               const std::function<void(const std::vector<Address>&)>& client) {
    try {
        const std::string role = argc > 2 ? argv[1] : "";
        std::vector<Address> addresses;
        for (int i = 2; i < argc; ++i)
            addresses.push_back(parse(argv[i]));
        if (role == "server") {
            serve(addresses.front());
        } else if (role == "client") {
            client(addresses);
        } else {
            throw std::runtime_error("usage: server ADDRESS | client ADDRESS...");
        }
        return 0;
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}

} // namespace driver
