/// Whole files: one side read while the other is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <strait/client.hpp>

#include "session.hpp"

namespace strait::detail {

/// A copy's permissions are the original's, less what the umask forbids.
std::int64_t get(Session& session, Reader& reader, const std::string& local,
                 const Progress& progress, bool overwrite);
std::int64_t put(Client& client, Session& session, const std::string& local,
                 std::string_view remote, const Progress& progress, bool overwrite);

} // namespace strait::detail
