/// Claims that this machine can't test.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <doctest/doctest.h>

namespace testing {

/// Reports that the running test case lacks something, in a form that `make test` counts. Fails
/// the test case under `CI=true`, which tests every claim.
inline void lacks(const char* what) {
    const char* ci = std::getenv("CI");
    if (ci != nullptr && std::string_view(ci) == "true")
        FAIL("CI skips no test, and lacks ", what);
    std::fprintf(stderr, "a test case of C++: 0 passed, 1 skipped (it needs %s)\n", what);
}

} // namespace testing
