/// Copies whole files: reads one side while writing the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <strait/client.hpp>

#include "session.hpp"

namespace strait::detail {

/// A copy gets the original's permissions, less the umask.
std::int64_t get(Session& session, Reader& reader, const std::string& local,
                 const Progress& progress, bool overwrite);
std::int64_t put(Client& client, Session& session, const std::string& local,
                 std::string_view remote, const Progress& progress, bool overwrite);

} // namespace strait::detail
