#include "run.hpp"

#include <algorithm>
#include <fstream>
#include <set>

#include "session.hpp"
#include "support/gateway.hpp"

namespace conformance {
namespace {

constexpr std::size_t pattern_period = 251 * 64;

std::string pattern(int seed, std::size_t offset, std::size_t length) {
    std::string bytes(length, '\0');
    for (std::size_t n = 0; n != length; ++n) {
        const std::size_t i = (offset + n) % pattern_period;
        bytes[n] = static_cast<char>(static_cast<std::size_t>(seed) + i + i / 251);
    }
    return bytes;
}

std::string from_hex(const std::string& digits) {
    std::string bytes;
    for (std::size_t n = 0; n < digits.size(); n += 2) {
        bytes += static_cast<char>(std::stoi(digits.substr(n, 2), nullptr, 16));
    }
    return bytes;
}

int octal(const Json& digits) {
    return std::stoi(digits.get<std::string>(), nullptr, 8);
}

/// The keys of each op beside "op", "error" and "absolute"; another fails the case.
const std::map<std::string, std::set<std::string>> known_keys = {
    {"write", {"path", "mode", "bytes", "piece", "permission"}},
    {"read", {"path", "expect"}},
    {"open", {"file", "path", "mode"}},
    {"read_next", {"file", "length", "expect"}},
    {"read_at", {"file", "offset", "length", "expect"}},
    {"append", {"file", "bytes"}},
    {"position", {"file", "expect"}},
    {"flush", {"file", "mode"}},
    {"close", {"file"}},
    {"stat", {"path", "expect"}},
    {"exists", {"path", "expect"}},
    {"list", {"path", "page", "expect"}},
    {"mkdirs", {"path", "permission", "count"}},
    {"rename", {"source", "target", "replace"}},
    {"remove", {"path", "recursive"}},
    {"set_attributes", {"path", "permission", "replication", "modified_ms", "accessed_ms"}},
    {"truncate", {"path", "length"}},
    {"concat", {"path", "sources"}},
    {"put", {"path", "name", "bytes", "replace"}},
    {"locate", {"path", "offset", "length", "expect"}},
    {"checksum", {"path", "other", "expect"}},
    {"status", {}},
    {"request", {"method", "args", "expect", "save", "client"}},
};

void check_keys(const Json& step) {
    const auto known = known_keys.find(step.at("op"));
    require(known != known_keys.end(), "an op that this driver doesn't know");
    for (const auto& [key, value] : step.items()) {
        require(key == "op" || key == "error" || key == "absolute" || known->second.count(key) != 0,
                "a key that this driver doesn't know: " + key);
    }
}

} // namespace

Run::Run(std::string address, const strait::Options& options, std::string directory)
    : address_(std::move(address)), options_(options), directory_(std::move(directory)),
      client_(address_, options), store_(client_.store()) {}

void Run::steps(const Json& steps) {
    client_.mkdirs(directory_);
    struct Cleaning {
        Run& run;
        ~Cleaning() {
            run.files_.clear();
            try {
                run.client_.remove(run.directory_, true);
            } catch (const strait::Error&) {
                // The steps have thrown the error to report.
            }
        }
    } const cleaning{*this};
    for (const Json& one : steps) {
        try {
            step(one);
        } catch (const Failed& failure) {
            throw Failed(one.dump() + "\n    " + failure.what());
        }
    }
}

void Run::step(const Json& step) {
    check_keys(step);
    const Json error = step.value("error", Json());
    try {
        perform(step.at("op"), step);
    } catch (const strait::Error& failure) {
        const std::string told = "failed as " + failure.kind_name() + ": " + failure.what();
        require(!error.is_null(), told);
        const Json kinds = error["kind"].is_array() ? error["kind"] : Json::array({error["kind"]});
        require(std::find(kinds.begin(), kinds.end(), failure.kind_name()) != kinds.end(), told);
        require(!error.contains("path") || failure.path() == at(error, "path"), told);
        return;
    }
    require(error.is_null(), "succeeded");
}

// -- Steps through the client's own interface

void Run::perform(const std::string& op, const Json& step) {
    if (op == "write") {
        write(step);
    } else if (op == "open") {
        files_[step.at("file")] = open(step, at(step, "path"));
    } else if (op == "append") {
        files_.at(step.at("file")).writer->write(bytes(step.at("bytes")));
    } else if (op == "flush") {
        strait::Writer& writer = *files_.at(step.at("file")).writer;
        (writer.*(step.at("mode") == "sync" ? &strait::Writer::sync : &strait::Writer::flush))();
    } else if (op == "close") {
        const File file = std::move(files_.extract(step.at("file").get<std::string>()).mapped());
        if (file.writer) {
            file.writer->close();
        } else {
            file.reader->close();
        }
    } else if (op == "mkdirs") {
        const auto bits = step.contains("permission") ? std::optional(octal(step.at("permission")))
                                                      : std::nullopt;
        for (int n = 0; n != step.value("count", 1); ++n) {
            client_.mkdirs(at(step, "path") + (step.contains("count") ? std::to_string(n) : ""),
                           bits);
        }
    } else if (op == "rename") {
        client_.rename(at(step, "source"), at(step, "target"), step.at("replace"));
    } else if (op == "remove") {
        client_.remove(at(step, "path"), step.at("recursive"));
    } else if (op == "set_attributes") {
        set_attributes(step);
    } else if (op == "truncate") {
        client_.truncate(at(step, "path"), step.at("length"));
    } else if (op == "concat") {
        std::vector<std::string> sources;
        for (const std::string source : step.at("sources")) {
            sources.push_back(directory_ + source);
        }
        client_.concat(at(step, "path"), sources);
    } else if (op == "put") {
        put(step);
    } else if (op == "request") {
        request(step);
    } else {
        look(op, step);
    }
}

void Run::look(const std::string& op, const Json& step) {
    if (op == "read") {
        const std::string all = client_.open_reader(at(step, "path")).read_all();
        same(all, step.at("expect"));
    } else if (op == "read_next") {
        std::string part(step.at("length").get<std::size_t>(), '\0');
        part.resize(files_.at(step.at("file")).reader->read(part.data(), part.size()));
        same(part, step.at("expect"));
    } else if (op == "read_at") {
        std::string part(step.at("length").get<std::size_t>(), '\0');
        part.resize(files_.at(step.at("file"))
                        .reader->read_at(step.at("offset"), part.data(), part.size()));
        same(part, step.at("expect"));
    } else if (op == "position") {
        require(files_.at(step.at("file")).writer->position() == step.at("expect"),
                "another position");
    } else if (op == "stat") {
        stat(step);
    } else if (op == "exists") {
        require(client_.exists(at(step, "path")) == step.at("expect"), "the contrary");
    } else if (op == "list") {
        list(step);
    } else if (op == "locate") {
        locate(step);
    } else if (op == "checksum") {
        const auto one = client_.checksum(at(step, "path")),
                   other = client_.checksum(at(step, "other"));
        require((one == other) == step.at("expect"), "the contrary");
    } else { // status, as check_keys knows
        const strait::StoreStatus status = client_.status();
        require(0 <= status.used && status.used <= status.capacity, "used beyond the capacity");
        require(0 <= status.remaining && status.remaining <= status.capacity,
                "remaining beyond it");
    }
}

Run::File Run::open(const Json& step, const std::string& path) {
    const std::string mode = step.at("mode");
    if (mode == "read") {
        return {std::make_unique<strait::Reader>(client_.open_reader(path)), nullptr};
    }
    strait::CreateOptions options;
    options.overwrite = mode == "overwrite";
    if (step.contains("permission")) {
        options.permission = octal(step.at("permission"));
    }
    require(mode == "create" || mode == "overwrite" || mode == "append", "an unknown mode");
    return {nullptr, std::make_unique<strait::Writer>(
                         mode == "append" ? client_.append(path) : client_.create(path, options))};
}

void Run::write(const Json& step) {
    const std::string data = bytes(step.at("bytes"));
    const File file = open(step, at(step, "path"));
    const std::size_t piece = step.value("piece", data.size());
    for (std::size_t from = 0; from < data.size(); from += piece) {
        file.writer->write(std::string_view(data).substr(from, piece));
    }
    file.writer->close();
}

void Run::put(const Json& step) {
    const testing::Scratch scratch;
    const std::string local = scratch / step.at("name").get<std::string>();
    std::ofstream(local, std::ios::binary) << bytes(step.at("bytes"));
    client_.put(local, at(step, "path"), {}, step.value("replace", false));
}

void Run::stat(const Json& step) {
    const strait::FileInfo info = client_.stat(at(step, "path"));
    for (const auto& [key, expected] : step.at("expect").items()) {
        const Json got = key == "type"          ? Json(info.is_directory() ? "directory" : "file")
                         : key == "length"      ? Json(info.length)
                         : key == "permission"  ? Json(info.permission)
                         : key == "replication" ? Json(info.replication)
                         : key == "modified_ms" ? Json(info.modified_ms)
                         : key == "accessed_ms" ? Json(info.accessed_ms)
                                                : Json();
        require(got == (key == "permission" ? Json(octal(expected)) : expected),
                key + " is " + got.dump());
    }
}

void Run::list(const Json& step) {
    std::multiset<std::string> expected, got;
    const Json expect = step.value("expect", Json::array());
    if (expect.is_object()) {
        for (int n = 0; n != expect["count"]; ++n) {
            expected.insert(expect["prefix"].get<std::string>() + std::to_string(n));
        }
    } else {
        expected = expect.get<std::multiset<std::string>>();
    }
    for (const strait::FileInfo& entry : client_.list(at(step, "path"), step.value("page", 0))) {
        got.insert(entry.name());
    }
    require(got == expected, "other names: " + Json(got).dump());
}

void Run::locate(const Json& step) {
    const auto length =
        step.contains("length") ? std::optional<std::int64_t>(step.at("length")) : std::nullopt;
    const auto blocks = client_.locate(at(step, "path"), step.value("offset", 0), length);
    const Json expect = step.value("expect", Json::object());
    if (expect.contains("none")) {
        require(blocks.empty(), "there are blocks");
        return;
    }
    require(!blocks.empty() && blocks.front().offset <= expect["from"], "begins too late");
    std::int64_t end = blocks.front().offset;
    for (const strait::BlockLocation& block : blocks) {
        require(block.offset == end && block.length > 0 && !block.hosts.empty(),
                "a gap, or no host");
        end += block.length;
    }
    require(end >= expect["to"], "ends too early");
}

void Run::set_attributes(const Json& step) {
    strait::Attributes attributes;
    if (step.contains("permission")) {
        attributes.permission = octal(step.at("permission"));
    }
    if (step.contains("replication")) {
        attributes.replication = step.at("replication").get<std::int16_t>();
    }
    if (step.contains("modified_ms")) {
        attributes.modified_ms = step.at("modified_ms").get<std::int64_t>();
        attributes.accessed_ms = step.at("accessed_ms").get<std::int64_t>();
    }
    client_.set_attributes(at(step, "path"), attributes);
}

// -- Values

std::string Run::at(const Json& step, const char* key) const {
    return (step.value("absolute", false) ? "" : directory_) + step.at(key).get<std::string>();
}

std::string Run::bytes(const Json& spec) {
    if (spec.contains("hex")) {
        return from_hex(spec["hex"]);
    }
    if (spec.contains("text")) {
        return spec["text"];
    }
    if (spec.contains("pattern")) {
        return pattern(spec["pattern"], spec.value("offset", std::size_t{0}), spec["length"]);
    }
    if (spec.contains("concat")) {
        std::string all;
        for (const Json& part : spec["concat"]) {
            all += bytes(part);
        }
        return all;
    }
    require(spec.contains("random"), "no bytes: " + spec.dump());
    std::string& id = random_[spec["random"]];
    if (id.empty()) {
        id = strait::detail::Session::new_request_id();
    }
    return id;
}

void Run::same(const std::string& got, const Json& spec) {
    const std::string expected = bytes(spec);
    const auto differ = std::mismatch(got.begin(), got.end(), expected.begin(), expected.end());
    require(got == expected, std::to_string(got.size()) + " bytes in place of " +
                                 std::to_string(expected.size()) + ", other from byte " +
                                 std::to_string(differ.first - got.begin()));
}

} // namespace conformance
