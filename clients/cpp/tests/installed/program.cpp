/// Uses the installed library; a gateway isn't needed for that.
#include <strait/strait.hpp>

int main() {
    try {
        strait::Client client("http://nowhere/");
    } catch (const strait::InvalidArgument& error) {
        return error.code() == std::errc::invalid_argument ? 0 : 2;
    }
    return 1;
}
