/// Whole files: one side read while the other is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <strait/client.hpp>

namespace strait::detail {

std::int64_t get(Reader& reader, const std::string& local, const Progress& progress,
                 bool overwrite);
std::int64_t put(Client& client, const std::string& local, std::string_view remote,
                 const Progress& progress, bool overwrite);

} // namespace strait::detail
