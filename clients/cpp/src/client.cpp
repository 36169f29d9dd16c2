#include <strait/client.hpp>

#include "convert.hpp"
#include "failure.hpp"
#include "reader_impl.hpp"
#include "session.hpp"
#include "transfer.hpp"
#include "writer_impl.hpp"

namespace strait {

using namespace detail;

namespace {

/// A request with its path.
template <class Request>
Request at(std::string_view path) {
    Request request;
    request.__set_path(std::string(path));
    return request;
}

} // namespace

// Sets a field of a request if there is a value for it.
#define STRAIT_SET(request, field, value)                                                          \
    if (value) {                                                                                   \
        request.__set_##field(*value);                                                             \
    }

Client::Client(std::string_view address, const Options& options)
    : session_(std::make_shared<Session>(Endpoint(address, options))) {}

Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

// -- The session

std::string Client::user() const {
    return session_->user();
}
std::string Client::token() const {
    return session_->token();
}
StoreInfo Client::store() const {
    return session_->store();
}
void Client::close() {
    session_->close();
}

ServerInfo Client::server_info() {
    const auto reply = session_->call(wire::ServerInfoRequest(), {});
    ServerInfo info{reply.server, static_cast<int>(reply.version), {}};
    for (const auto& store : reply.stores) {
        info.stores.push_back(converted(store));
    }
    return info;
}

StoreStatus Client::status() {
    const auto reply = session_->call(wire::GetStoreStatusRequest(), {});
    return {reply.capacity, reply.used, reply.remaining, reply.settling};
}

// -- Looking

FileInfo Client::stat(std::string_view path) {
    return converted(session_->call(at<wire::GetFileInfoRequest>(path), path).info);
}

bool Client::exists(std::string_view path) {
    try {
        stat(path);
        return true;
    } catch (const NotFound&) {
        return false;
    } catch (const NotADirectory&) {
        return false;
    }
}

Listing Client::list(std::string_view path, std::int32_t page_size) {
    return {session_, std::string(path), page_size};
}

std::vector<BlockLocation> Client::locate(std::string_view path, std::int64_t offset,
                                          std::optional<std::int64_t> length) {
    auto request = at<wire::GetBlockLocationsRequest>(path);
    request.__set_offset(offset);
    STRAIT_SET(request, length, length);
    std::vector<BlockLocation> blocks;
    for (const auto& block : session_->call(request, path).blocks) {
        blocks.push_back(converted(block));
    }
    return blocks;
}

Checksum Client::checksum(std::string_view path) {
    auto reply = session_->call(at<wire::GetChecksumRequest>(path), path);
    return {std::move(reply.algorithm), std::move(reply.value)};
}

// -- Files

Reader Client::open_reader(std::string_view path) {
    return Reader(std::make_unique<Reader::Impl>(session_, path));
}

Writer Client::create(std::string_view path, const CreateOptions& options) {
    auto request = at<wire::CreateFileRequest>(path);
    request.__set_overwrite(options.overwrite);
    STRAIT_SET(request, permission, options.permission);
    STRAIT_SET(request, replication, options.replication);
    STRAIT_SET(request, block_size, options.block_size);
    return Writer(std::make_unique<Writer::Impl>(session_, path, session_->mutate(request, path)));
}

Writer Client::append(std::string_view path) {
    const auto reply = session_->mutate(at<wire::AppendFileRequest>(path), path);
    return Writer(std::make_unique<Writer::Impl>(session_, path, reply));
}

// -- Changes

void Client::mkdirs(std::string_view path, std::optional<int> permission) {
    auto request = at<wire::MakeDirectoriesRequest>(path);
    STRAIT_SET(request, permission, permission);
    session_->mutate(request, path);
}

void Client::rename(std::string_view source, std::string_view target, bool replace) {
    wire::RenamePathRequest request;
    request.__set_source(std::string(source));
    request.__set_target(std::string(target));
    request.__set_replace(replace);
    session_->mutate(request, source);
}

void Client::remove(std::string_view path, bool recursive) {
    auto request = at<wire::RemovePathRequest>(path);
    request.__set_recursive(recursive);
    session_->mutate(request, path);
}

void Client::set_attributes(std::string_view path, const Attributes& attributes) {
    auto request = at<wire::SetAttributesRequest>(path);
    STRAIT_SET(request, permission, attributes.permission);
    STRAIT_SET(request, owner, attributes.owner);
    STRAIT_SET(request, group, attributes.group);
    STRAIT_SET(request, modified_ms, attributes.modified_ms);
    STRAIT_SET(request, accessed_ms, attributes.accessed_ms);
    STRAIT_SET(request, replication, attributes.replication);
    session_->mutate(request, path);
}

void Client::truncate(std::string_view path, std::int64_t length) {
    auto request = at<wire::TruncateFileRequest>(path);
    request.__set_length(length);
    session_->mutate(request, path);
}

void Client::concat(std::string_view path, const std::vector<std::string>& sources) {
    auto request = at<wire::ConcatFilesRequest>(path);
    request.__set_sources(sources);
    session_->mutate(request, path);
}

// -- Whole files

std::int64_t Client::get(std::string_view remote, const std::string& local,
                         const Progress& progress, bool overwrite) {
    Reader reader(std::make_unique<Reader::Impl>(session_, remote, max_window));
    return detail::get(*session_, reader, local, progress, overwrite);
}

std::int64_t Client::put(const std::string& local, std::string_view remote,
                         const Progress& progress, bool overwrite) {
    return detail::put(*this, *session_, local, remote, progress, overwrite);
}

} // namespace strait
