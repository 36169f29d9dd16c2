#include "convert.hpp"

namespace strait {

std::string FileInfo::name() const {
    return path.substr(path.rfind('/') + 1);
}

std::chrono::system_clock::time_point FileInfo::modified() const {
    return std::chrono::system_clock::time_point(std::chrono::milliseconds(modified_ms));
}

namespace detail {

FileInfo converted(const generated::FileInfo& from) {
    FileInfo info;
    info.path = from.path;
    info.type = from.type == generated::FileType::DIRECTORY ? FileType::directory : FileType::file;
    info.length = from.length;
    info.block_size = from.block_size;
    info.replication = from.replication;
    info.modified_ms = from.modified_ms;
    info.accessed_ms = from.accessed_ms;
    info.permission = from.permission;
    info.owner = from.owner;
    info.group = from.group;
    return info;
}

BlockLocation converted(const generated::BlockLocation& from) {
    return {from.offset, from.length, from.hosts, from.addresses, from.corrupt};
}

StoreInfo converted(const generated::StoreInfo& from) {
    StoreInfo info;
    info.name = from.name;
    info.uri = from.uri;
    info.capabilities.insert(from.capabilities.begin(), from.capabilities.end());
    info.recovery = std::chrono::milliseconds(from.recovery_ms);
    return info;
}

} // namespace detail
} // namespace strait
