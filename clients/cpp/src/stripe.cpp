#include "stripe.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace strait::detail {
namespace {

// Chunks received before they are requested by the caller: one being read, one being filled, and
// two for pauses of either side.
constexpr int pieces = 4;

} // namespace

Stripe::Stripe(Lease connection, std::int64_t handle, std::int64_t begin, std::int64_t end,
               std::size_t chunk, const std::string& path)
    : begin_(begin), end_(end), chunk_(chunk),
      requests_(std::move(connection), handle, begin, end, chunk, max_window / 2, path) {
    requests_.leave_out_every_other();
    for (int n = 0; n < pieces; ++n) {
        empty_.push({std::unique_ptr<char[]>(new char[chunk])});
    }
    thread_ = std::thread([this] { run(); });
}

Stripe::~Stripe() {
    empty_.close();
    if (!finished_) {
        requests_.connection()->interrupt();
    }
    thread_.join();
}

bool Stripe::has(std::int64_t offset) const {
    const auto chunk = static_cast<std::int64_t>(chunk_);
    return offset >= begin_ && (offset - begin_) / chunk % 2 == 0;
}

std::size_t Stripe::read(char* into, std::size_t size) {
    if (current_.taken == current_.size) {
        if (current_.data) {
            empty_.push(std::move(current_));
        }
        current_ = full_.pop().value_or(Piece());
    }
    const std::size_t count = std::min(size, current_.size - current_.taken);
    if (count != 0) {
        std::memcpy(into, current_.data.get() + current_.taken, count);
        current_.taken += count;
    }
    return count;
}

void Stripe::run() {
    const Closing<Piece> closing(full_);
    try {
        const auto chunk = static_cast<std::int64_t>(chunk_);
        for (std::int64_t left = end_ - begin_; left > 0;) {
            auto piece = empty_.pop();
            if (!piece) {
                return;
            }
            const auto wanted = static_cast<std::size_t>(std::min(left, chunk));
            piece->taken = 0;
            piece->size = 0;
            while (piece->size < wanted) {
                const std::size_t count =
                    requests_.read(piece->data.get() + piece->size, wanted - piece->size,
                                   requests_.connection()->deadline());
                if (count == 0) {
                    return;
                }
                piece->size += count;
            }
            left -= 2 * chunk;
            // Before the last piece can be taken, since its reader may end the stripe.
            finished_ = left <= 0;
            full_.push(std::move(*piece));
        }
    } catch (...) {
        // Silent: see the class.
    }
}

} // namespace strait::detail
