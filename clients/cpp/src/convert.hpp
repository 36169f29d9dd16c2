/// Conversions from generated structs to public ones.
#pragma once

#include <strait/types.hpp>

#include <dfs_types.h>

namespace strait::detail {

FileInfo converted(const generated::FileInfo& from);
BlockLocation converted(const generated::BlockLocation& from);
StoreInfo converted(const generated::StoreInfo& from);

} // namespace strait::detail
