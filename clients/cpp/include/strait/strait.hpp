/// Includes all headers.
#pragma once

#include <strait/client.hpp>
#include <strait/errors.hpp>
#include <strait/reader.hpp>
#include <strait/stream.hpp>
#include <strait/types.hpp>
#include <strait/uri.hpp>
#include <strait/writer.hpp>
