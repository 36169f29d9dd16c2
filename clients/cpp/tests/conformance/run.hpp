/// Runs one case of clients/conformance/cases.json through the client.
///
/// The format and its rules are in clients/conformance/README.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include <strait/strait.hpp>

namespace conformance {

using Json = nlohmann::json;

/// A step with a result that its case doesn't expect.
struct Failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void require(bool condition, const std::string& otherwise) {
    if (!condition) {
        throw Failed(otherwise);
    }
}

/// One case, in a directory of its own.
class Run {
public:
    Run(std::string address, const strait::Options& options, std::string directory);

    const strait::StoreInfo& store() const { return store_; }
    /// Runs the steps; throws Failed.
    void steps(const Json& steps);

private:
    struct File {
        std::unique_ptr<strait::Reader> reader;
        std::unique_ptr<strait::Writer> writer;
    };

    void step(const Json& step);
    void perform(const std::string& op, const Json& step);
    void look(const std::string& op, const Json& step);
    void write(const Json& step);
    void put(const Json& step);
    void read(const Json& step);
    void list(const Json& step);
    void stat(const Json& step);
    void locate(const Json& step);
    void set_attributes(const Json& step);
    void request(const Json& step);
    template <class Request>
    void exchange(const Json& step);

    File open(const Json& step, const std::string& path);
    std::string at(const Json& step, const char* key) const;
    std::string bytes(const Json& spec);
    void same(const std::string& got, const Json& spec);
    Json value(const std::string& key, const Json& given);

    const std::string address_;
    const strait::Options options_;
    const std::string directory_;
    strait::Client client_;
    const strait::StoreInfo store_;
    std::map<std::string, strait::Client> others_;
    std::map<std::string, File> files_;
    std::map<std::string, Json> saved_;
    std::map<std::string, std::string> random_;
};

} // namespace conformance
