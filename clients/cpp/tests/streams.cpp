/// strait::istream and strait::ostream as any other stream.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include <strait/strait.hpp>

#include "support/gateway.hpp"

using namespace testing;

namespace {

/// The path of a new file with this text.
std::string file_with(strait::Client& client, const std::string& text) {
    const std::string path = unique_path();
    strait::ostream out(client.create(path));
    out << text;
    out.close();
    return path;
}

} // namespace

TEST_CASE("formatted numbers and words come back through operator>>") {
    strait::Client client(shared_gateway());
    const std::string path = unique_path();
    strait::ostream out(client.create(path));
    for (int n = 0; n != 50'000; ++n) {
        out << n << ' ' << n * 0.5 << " w" << n << '\n';
    }
    out.close();
    strait::istream in(client.open_reader(path));
    int number;
    double half;
    std::string word;
    int lines = 0;
    while (in >> number >> half >> word) {
        REQUIRE(number == lines);
        REQUIRE(half == number * 0.5);
        REQUIRE(word == "w" + std::to_string(number));
        ++lines;
    }
    CHECK(lines == 50'000);
    CHECK(in.eof());
    CHECK(!in.bad());
}

TEST_CASE("getline, iterators and large reads see the same bytes") {
    strait::Client client(shared_gateway());
    const std::string text = pattern(3'000'001);
    const std::string path = file_with(client, text);

    strait::istream iterated(client.open_reader(path));
    CHECK(std::equal(text.begin(), text.end(), std::istreambuf_iterator<char>(iterated)));

    strait::istream streamed(client.open_reader(path));
    std::ostringstream all;
    all << streamed.rdbuf();
    CHECK((all.str() == text));

    strait::istream mixed(client.open_reader(path));
    std::string got;
    while (mixed) {
        std::string line, block(got.size() % 7 * 50'000 + 1, '\0');
        std::getline(mixed, line);
        got += line + (mixed.eof() ? "" : "\n");
        mixed.read(block.data(), static_cast<std::streamsize>(block.size()));
        got.append(block, 0, static_cast<std::size_t>(mixed.gcount()));
    }
    CHECK((got == text));
}

TEST_CASE("a character can be put back wherever the buffer ends") {
    strait::Client client(shared_gateway());
    const std::string text = pattern(200'000);
    strait::istream in(client.open_reader(file_with(client, text)));
    for (const char expected : text) {
        REQUIRE(in.get() == std::char_traits<char>::to_int_type(expected));
        REQUIRE(in.unget());
        REQUIRE(in.get() == std::char_traits<char>::to_int_type(expected));
    }
}

TEST_CASE("positions are told and set") {
    strait::Client client(shared_gateway());
    const std::string text = pattern(300'000);
    strait::istream in(client.open_reader(file_with(client, text)));
    for (const int offset : {150'000, 150'010, 149'999, 0, 299'999}) {
        CAPTURE(offset);
        in.seekg(offset);
        CHECK(in.tellg() == offset);
        CHECK(static_cast<char>(in.get()) == text[static_cast<std::size_t>(offset)]);
        CHECK(in.tellg() == offset + 1);
    }
    in.seekg(-3, std::ios::end);
    CHECK(static_cast<char>(in.get()) == text[text.size() - 3]);
    in.seekg(1, std::ios::cur);
    CHECK(static_cast<char>(in.get()) == text.back());
    CHECK(in.get() == std::char_traits<char>::eof());
    in.clear();
    in.seekg(-1);
    CHECK(in.fail());
}

TEST_CASE("an ostream tells its position, flushes, and can't go back") {
    strait::Client client(shared_gateway());
    const std::string path = unique_path();
    strait::ostream out(client.create(path));
    out << "first" << std::flush;
    CHECK(client.open_reader(path).read_all() == "first");
    out << pattern(100'000);
    CHECK(out.tellp() == 100'005);
    out.seekp(0);
    CHECK(out.fail());
}

TEST_CASE("a failure sets badbit, and is thrown where that is asked for") {
    strait::Client client(shared_gateway());
    const std::string path = file_with(client, pattern(3'000'000));
    strait::istream in(client.open_reader(path));
    strait::istream throwing(client.open_reader(path));
    throwing.exceptions(std::ios::badbit);
    client.close();
    std::string word;
    in >> word;
    CHECK(in.bad());
    CHECK_THROWS_AS(throwing >> word, strait::InvalidArgument);
}

TEST_CASE("closing an ostream throws what went wrong") {
    strait::Client client(shared_gateway());
    strait::ostream out(client.create(unique_path()));
    client.close();
    out << "lost";
    CHECK_THROWS_AS(out.close(), strait::InvalidArgument);
    CHECK(out.bad());
}
