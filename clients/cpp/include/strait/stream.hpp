/// Remote files as the standard library's streams.
///
/// As with any stream, a failure sets badbit; after `stream.exceptions(std::ios::badbit)` it is
/// thrown, as a strait::Error.
#pragma once

#include <cstddef>
#include <istream>
#include <optional>
#include <ostream>
#include <vector>

#include <strait/reader.hpp>
#include <strait/writer.hpp>

namespace strait {

/// Buffer of strait::istream over a Reader.
class STRAIT_EXPORT reader_buf final : public std::streambuf {
public:
    explicit reader_buf(Reader reader);

protected:
    int_type underflow() override;
    std::streamsize xsgetn(char* into, std::streamsize size) override;
    std::streamsize showmanyc() override;
    pos_type seekoff(off_type offset, std::ios_base::seekdir from,
                     std::ios_base::openmode which) override;
    pos_type seekpos(pos_type position, std::ios_base::openmode which) override;

private:
    Reader reader_;
    std::vector<char> buffer_;
};

/// Buffer of strait::ostream over a Writer.
class STRAIT_EXPORT writer_buf final : public std::streambuf {
public:
    explicit writer_buf(Writer writer);

    /// Writes the buffered bytes, and closes the file. As Writer::close, it may be repeated.
    std::optional<int> close();

protected:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* data, std::streamsize size) override;
    int sync() override;
    pos_type seekoff(off_type offset, std::ios_base::seekdir from,
                     std::ios_base::openmode which) override;

private:
    friend class ostream;
    void hand_over();
    template <class Step>
    auto watched(Step step);

    Writer writer_;
    std::vector<char> buffer_;
    bool failed_ = false; // the last call did
};

/// `strait::istream in(client.open_reader(path));`
class STRAIT_EXPORT istream final : public std::istream {
public:
    explicit istream(Reader reader);

private:
    reader_buf buffer_;
};

/// `strait::ostream out(client.create(path));`
///
/// After NoSpace and Unavailable the stream keeps its bytes, as a Writer does: after `clear()` it
/// may be used again, and `tellp()` tells how much it has taken. `close` may be repeated at once.
///
/// std::flush makes the written bytes visible to readers (not in object stores), at the price of a
/// round trip: end lines with '\n' rather than std::endl.
class STRAIT_EXPORT ostream final : public std::ostream {
public:
    explicit ostream(Writer writer);
    /// Closes, but can't report an error: call close to be sure that everything is stored. If the
    /// last call failed, the bytes that the gateway hasn't taken are lost.
    ~ostream() override;

    /// Closes the file; returns and throws as Writer::close does.
    std::optional<int> close();

private:
    writer_buf buffer_;
};

} // namespace strait
