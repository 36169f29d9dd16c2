#include <strait/client.hpp>

#include "convert.hpp"
#include "failure.hpp"
#include "session.hpp"

#include <algorithm>
#include <unistd.h>

namespace strait {

using namespace detail;

namespace {

/// A path without repeated and trailing slashes, as the gateway spells it.
std::string spelled(std::string_view path) {
    std::string text;
    for (const char each : path) {
        if (each != '/' || text.empty() || text.back() != '/') {
            text += each;
        }
    }
    if (text.size() > 1 && text.back() == '/') {
        text.pop_back();
    }
    return text;
}

bool is_name(std::string_view text) {
    return !text.empty() && text != "." && text != ".." &&
           text.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

} // namespace

struct Listing::iterator::Pages {
    std::shared_ptr<Session> session;
    std::string path;
    std::int32_t page_size;
    std::int64_t incarnation = session->incarnation(); // from before it began
    std::vector<FileInfo> entries = {};
    std::size_t index = 0;
    std::optional<std::int64_t> cursor = {};
    bool is_last = false;
    pid_t process = getpid(); // a child's copy is the parent's too

    Pages(std::shared_ptr<Session> session, std::string path, std::int32_t page_size)
        : session(std::move(session)), path(std::move(path)), page_size(page_size) {}
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    /// Frees a listing that is left before its end.
    ~Pages() {
        if (is_last || !cursor || process != getpid()) {
            return;
        }
        try {
            wire::CloseFileRequest request;
            request.__set_handle(*cursor);
            session->borrow(session->parting())->call(request, path);
        } catch (const std::exception&) {
            // The gateway drops it with the session.
        }
    }

    /// Fetches a page after the end of the one before; returns whether there is an entry.
    bool fill() {
        if (index == entries.size() && !is_last) {
            fetch();
        }
        return index != entries.size();
    }

    void fetch() {
        wire::ListDirectoryRequest request;
        request.__set_path(path);
        if (page_size != 0) {
            request.__set_max_entries(page_size);
        }
        if (cursor) {
            request.__set_cursor(*cursor);
        }
        const bool is_first = !cursor;
        const auto reply = is_first ? session->call(request, path) : go_on(request);
        entries.clear();
        index = 0;
        is_last = !reply.__isset.cursor;
        cursor = reply.cursor;
        if (reply.entries.empty() && !is_last) {
            raise(ErrorKind::Internal,
                  "list: the gateway sent an empty page that isn't the last (a defect of the "
                  "gateway)",
                  path);
        }
        check(reply.entries, is_first);
        for (const auto& entry : reply.entries) {
            entries.push_back(converted(entry));
        }
    }

    /// Refuses what isn't in the directory: programs make names of local files of it.
    void check(const std::vector<wire::FileInfo>& page, bool is_first) const {
        const std::string listed = spelled(path);
        if (is_first && page.size() == 1 && page.front().path == listed &&
            page.front().type != wire::FileType::DIRECTORY) {
            return; // a file is listed as itself
        }
        const std::string prefix = listed == "/" ? listed : listed + "/";
        for (const auto& entry : page) {
            if (entry.path.compare(0, prefix.size(), prefix) != 0 ||
                !is_name(std::string_view(entry.path).substr(prefix.size()))) {
                std::string shown = entry.path; // an error's text ends at a NUL
                std::replace(shown.begin(), shown.end(), '\0', '?');
                raise(ErrorKind::Internal,
                      "list: the gateway named " + shown + ", which isn't in this directory", path);
            }
        }
    }

    /// A cursor is good for one page.
    wire::ListDirectoryReply go_on(const wire::ListDirectoryRequest& request) const {
        try {
            return session->call_once(request, path);
        } catch (const InvalidArgument&) {
            // If another gateway answers, an unknown cursor isn't the caller's mistake.
            if (session->incarnation() == incarnation) {
                throw;
            }
            raise(ErrorKind::Unavailable,
                  "the gateway's session ended in the middle of the listing; list anew", path);
        }
    }
};

Listing::Listing(std::shared_ptr<Session> session, std::string path, std::int32_t page_size)
    : session_(std::move(session)), path_(std::move(path)), page_size_(page_size) {}

Listing::iterator Listing::begin() const {
    iterator first;
    first.pages_ = std::make_shared<iterator::Pages>(session_, path_, page_size_);
    if (!first.pages_->fill()) {
        first.pages_.reset();
    }
    return first;
}

Listing::iterator::reference Listing::iterator::operator*() const {
    return pages_->entries[pages_->index];
}

Listing::iterator& Listing::iterator::operator++() {
    ++pages_->index;
    if (!pages_->fill()) {
        pages_.reset();
    }
    return *this;
}

} // namespace strait
