#include <strait/stream.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace strait {
namespace {

// Small enough to stay in the processor's cache; the Reader and the Writer manage the requests.
constexpr std::size_t buffer_bytes = 64 << 10;
// Characters that can be put back at the start of a buffer.
constexpr std::size_t put_back = 16;

const std::streambuf::pos_type failed(std::streambuf::off_type(-1));

} // namespace

// -- Reading

reader_buf::reader_buf(Reader reader) : reader_(std::move(reader)), buffer_(buffer_bytes) {
    char* const start = buffer_.data() + put_back;
    setg(start, start, start);
}

reader_buf::int_type reader_buf::underflow() {
    if (gptr() == egptr()) {
        const auto kept =
            std::min<std::size_t>(put_back, static_cast<std::size_t>(gptr() - eback()));
        char* const start = buffer_.data() + put_back;
        std::memmove(start - kept, gptr() - kept, kept);
        setg(start - kept, start, start);
        const std::size_t count = reader_.read_some(start, buffer_.size() - put_back);
        setg(start - kept, start, start + count);
        if (count == 0) {
            return traits_type::eof();
        }
    }
    return traits_type::to_int_type(*gptr());
}

std::streamsize reader_buf::xsgetn(char* into, std::streamsize size) {
    const std::streamsize buffered = std::min<std::streamsize>(size, egptr() - gptr());
    std::memcpy(into, gptr(), static_cast<std::size_t>(buffered));
    setg(eback(), gptr() + buffered, egptr());
    const std::streamsize rest = size - buffered;
    if (rest < static_cast<std::streamsize>(buffer_.size())) {
        return buffered + (rest == 0 ? 0 : std::streambuf::xsgetn(into + buffered, rest));
    }
    // Past the buffer. Then only the latest bytes can be put back.
    const auto count =
        static_cast<std::streamsize>(reader_.read(into + buffered, static_cast<std::size_t>(rest)));
    const auto kept = std::min<std::streamsize>(put_back, buffered + count);
    char* const start = buffer_.data() + put_back;
    std::memcpy(start - kept, into + buffered + count - kept, static_cast<std::size_t>(kept));
    setg(start - kept, start, start);
    return buffered + count;
}

std::streamsize reader_buf::showmanyc() {
    const std::int64_t rest = reader_.length() - reader_.tell();
    return rest > 0 ? rest : 0;
}

reader_buf::pos_type reader_buf::seekoff(off_type offset, std::ios_base::seekdir from,
                                         std::ios_base::openmode which) {
    const off_type here = reader_.tell() - (egptr() - gptr());
    switch (from) {
    case std::ios_base::beg:
        return seekpos(offset, which);
    case std::ios_base::cur:
        return offset == 0 ? pos_type(here) : seekpos(here + offset, which);
    default:
        return seekpos(reader_.length() + offset, which);
    }
}

reader_buf::pos_type reader_buf::seekpos(pos_type position, std::ios_base::openmode which) {
    const off_type target = position;
    if ((which & std::ios_base::in) == 0 || target < 0) {
        return failed;
    }
    const off_type buffer_begin = reader_.tell() - (egptr() - eback());
    if (target >= buffer_begin && target <= reader_.tell()) {
        setg(eback(), eback() + (target - buffer_begin), egptr());
    } else {
        reader_.seek(target);
        char* const start = buffer_.data() + put_back;
        setg(start, start, start);
    }
    return position;
}

istream::istream(Reader reader) : std::istream(nullptr), buffer_(std::move(reader)) {
    rdbuf(&buffer_);
}

// -- Writing

writer_buf::writer_buf(Writer writer) : writer_(std::move(writer)), buffer_(buffer_bytes) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
}

/// Runs a step, and notes whether it failed.
template <class Step>
auto writer_buf::watched(Step step) {
    failed_ = true;
    if constexpr (std::is_void_v<decltype(step())>) {
        step();
        failed_ = false;
    } else {
        auto result = step();
        failed_ = false;
        return result;
    }
}

/// After a failure the buffer has the bytes that the writer hasn't taken.
void writer_buf::hand_over() {
    const std::int64_t before = writer_.position();
    const auto rest_only = [&] {
        const auto size = static_cast<std::size_t>(pptr() - pbase());
        const auto taken = static_cast<std::size_t>(writer_.position() - before);
        std::memmove(buffer_.data(), buffer_.data() + taken, size - taken);
        setp(buffer_.data(), buffer_.data() + buffer_.size());
        pbump(static_cast<int>(size - taken));
    };
    try {
        writer_.write(pbase(), static_cast<std::size_t>(pptr() - pbase()));
    } catch (...) {
        rest_only();
        throw;
    }
    rest_only();
}

writer_buf::int_type writer_buf::overflow(int_type c) {
    watched([&] { hand_over(); });
    return traits_type::eq_int_type(c, traits_type::eof()) ? traits_type::not_eof(c)
                                                           : sputc(traits_type::to_char_type(c));
}

std::streamsize writer_buf::xsputn(const char* data, std::streamsize size) {
    if (size < epptr() - pptr()) {
        std::memcpy(pptr(), data, static_cast<std::size_t>(size));
        pbump(static_cast<int>(size));
    } else {
        watched([&] {
            hand_over();
            writer_.write(data, static_cast<std::size_t>(size));
        });
    }
    return size;
}

int writer_buf::sync() {
    watched([&] {
        hand_over();
        writer_.flush();
    });
    return 0;
}

writer_buf::pos_type writer_buf::seekoff(off_type offset, std::ios_base::seekdir from,
                                         std::ios_base::openmode) {
    // Stores only append: callers can ask for the position, but not change it.
    if (offset != 0 || from != std::ios_base::cur) {
        return failed;
    }
    return writer_.position() + (pptr() - pbase());
}

std::optional<int> writer_buf::close() {
    return watched([&] {
        if (pptr() != pbase()) {
            hand_over();
        }
        return writer_.close();
    });
}

ostream::ostream(Writer writer) : std::ostream(nullptr), buffer_(std::move(writer)) {
    rdbuf(&buffer_);
}

ostream::~ostream() {
    try {
        if (!buffer_.failed_) {
            buffer_.close();
        }
    } catch (const std::exception&) {
        // An error has no receiver here.
    }
}

std::optional<int> ostream::close() {
    try {
        return buffer_.close();
    } catch (...) {
        try {
            setstate(std::ios_base::badbit);
        } catch (const std::ios_base::failure&) {
            // The exception below has more details.
        }
        throw;
    }
}

} // namespace strait
