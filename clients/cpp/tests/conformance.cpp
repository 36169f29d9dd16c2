/// The cases of all client languages, over each wire of this client, on every available store.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "conformance/run.hpp"
#include "session.hpp"
#include "support/gateway.hpp"

using conformance::Json;
using strait::Wire;

namespace {

const std::map<std::string, Wire> wires = {
    {"framed-binary", Wire::framed_binary},
    {"binary", Wire::binary},
    {"framed-compact", Wire::framed_compact},
    {"compact", Wire::compact},
};

struct Counts {
    int passed = 0, skipped = 0, failed = 0;
    std::map<std::string, int> lacking; // by capability

    void operator+=(const Counts& other) {
        passed += other.passed;
        skipped += other.skipped;
        failed += other.failed;
        for (const auto& [capability, count] : other.lacking) {
            lacking[capability] += count;
        }
    }
};

Json load_cases() {
    std::ifstream file(std::string(STRAIT_REPOSITORY) + "/clients/conformance/cases.json");
    const Json document = Json::parse(file);
    conformance::require(document.at("format") == 1, "cases of another format");
    return document.at("cases");
}

void run_case(const Json& one, const std::string& address, const std::string& wire,
              const std::string& directory, Counts& counts) {
    strait::Options options;
    options.wire = wires.at(wire);
    try {
        conformance::Run run(address, options, directory);
        for (const std::string need : one.value("needs", Json::array())) {
            if (!run.store().can(need)) {
                ++counts.skipped;
                ++counts.lacking[need];
                return;
            }
        }
        run.steps(one.at("steps"));
        ++counts.passed;
    } catch (const std::exception& error) {
        ++counts.failed;
        std::printf("FAILED over %s: %s\n    %s\n", wire.c_str(),
                    one.at("name").get<std::string>().c_str(), error.what());
    }
}

/// Whether all cases passed on this store.
bool run_store(const char* name, const testing::Gateway& gateway) {
    // A unique name: the store may keep the remains of other runs.
    std::string root = "/strait-cpp-";
    for (const char byte : strait::detail::Session::new_request_id().substr(0, 6)) {
        root += "0123456789abcdef"[byte & 15];
    }
    const Json cases = load_cases();
    std::vector<std::future<Counts>> running; // the wires side by side
    for (const auto& [wire, ignored] : wires) {
        running.push_back(std::async(std::launch::async, [&, wire = wire] {
            Counts counts;
            int number = 0;
            for (const Json& one : cases) {
                const std::string directory = root + "/" + wire + "-" + std::to_string(++number);
                run_case(one, gateway.address(), wire, directory, counts);
            }
            return counts;
        }));
    }
    Counts counts;
    for (std::future<Counts>& wire : running) {
        counts += wire.get();
    }
    strait::Client(gateway.address()).remove(root, true);
    std::printf("conformance C++ %s: %d passed, %d failed, %d skipped", name, counts.passed,
                counts.failed, counts.skipped);
    for (const auto& [capability, count] : counts.lacking) {
        std::printf(", %d for lack of %s", count, capability.c_str());
    }
    std::printf("\n");
    return counts.failed == 0 && counts.passed != 0;
}

} // namespace

int main() try {
    const testing::Scratch directory, cluster;
    bool good = run_store("file", testing::Gateway("file://" + directory.path()));
    good = run_store("kadoop", testing::Kadoop(cluster)) && good;
    if (const char* hdfs = std::getenv("STRAIT_TEST_HDFS")) {
        good = run_store("hdfs", testing::Gateway(hdfs)) && good;
    }
    return good ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "conformance: %s\n", error.what());
    return 1;
}
