/// Uses the installed library, which needs no gateway.
#include <strait/strait.hpp>

int main() {
    try {
        strait::Client client("http://nowhere/");
    } catch (const strait::InvalidArgument& error) {
        return error.code() == std::errc::invalid_argument ? 0 : 2;
    }
    return 1;
}
