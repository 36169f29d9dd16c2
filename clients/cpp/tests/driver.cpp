/// Answers the requests of tests/languages/driver.py that faults consist of.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include <strait/strait.hpp>

namespace {

using Parts = std::vector<std::string>;

bool read_number(std::size_t& number) {
    unsigned char bytes[4];
    if (!std::cin.read(reinterpret_cast<char*>(bytes), sizeof bytes)) {
        return false;
    }
    number = std::size_t{bytes[0]} << 24 | std::size_t{bytes[1]} << 16 |
             std::size_t{bytes[2]} << 8 | bytes[3];
    return true;
}

bool read_parts(Parts& parts) {
    std::size_t count = 0;
    if (!read_number(count)) {
        return false;
    }
    parts.assign(count, "");
    for (std::string& part : parts) {
        std::size_t length = 0;
        if (!read_number(length)) {
            return false;
        }
        part.resize(length);
        std::cin.read(part.data(), static_cast<std::streamsize>(length));
    }
    return true;
}

void write_number(std::size_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        std::cout.put(static_cast<char>(number >> shift));
    }
}

void write_parts(const Parts& parts) {
    write_number(parts.size());
    for (const std::string& part : parts) {
        write_number(part.size());
        std::cout << part;
    }
    std::cout.flush();
}

class Driver {
public:
    /// The results of an operation.
    Parts perform(const Parts& given) {
        const std::string& operation = given.at(0);
        const std::string& first = given.at(1);
        if (operation == "connect") {
            strait::Options options;
            options.timeout = std::chrono::milliseconds(std::stoi(given.at(3)));
            const auto connected = std::make_shared<strait::Client>(given.at(2), options);
            client_ = clients_[first] = connected;
            std::string capabilities;
            for (const std::string& capability : client_->store().capabilities) {
                capabilities += (capabilities.empty() ? "" : ",") + capability;
            }
            return {capabilities};
        }
        if (operation == "use") {
            client_ = clients_.at(first);
        } else if (operation == "disconnect") {
            clients_.at(first)->close();
            clients_.erase(first);
        } else if (operation == "mkdirs") {
            client_->mkdirs(first);
        } else if (operation == "rename") {
            client_->rename(first, given.at(2), given.at(3) == "1");
        } else if (operation == "remove") {
            client_->remove(first, given.at(2) == "1");
        } else if (operation == "exists") {
            return {client_->exists(first) ? "1" : "0"};
        } else if (operation == "stat") {
            const strait::FileInfo info = client_->stat(first);
            return {info.is_directory() ? "directory" : "file",
                    std::to_string(info.length),
                    std::to_string(info.permission),
                    std::to_string(info.replication),
                    std::to_string(info.modified_ms),
                    std::to_string(info.accessed_ms)};
        } else if (operation == "list") {
            Parts names;
            const int page = given.at(2).empty() ? 0 : std::stoi(given.at(2));
            for (const strait::FileInfo& entry : client_->list(first, page)) {
                names.push_back(entry.name());
            }
            return names;
        } else {
            return perform_on_file(given);
        }
        return {};
    }

private:
    Parts perform_on_file(const Parts& given) {
        const std::string& operation = given.at(0);
        const std::string& name = given.at(1);
        if (operation == "open") {
            open(name, given.at(2), given.at(3));
        } else if (operation == "read") {
            const int length = std::stoi(given.at(2));
            if (length < 0) {
                return {readers_.at(name).read_all()};
            }
            std::string part(static_cast<std::size_t>(length), '\0');
            part.resize(readers_.at(name).read(part.data(), part.size()));
            return {part};
        } else if (operation == "pread") {
            std::string part(std::stoul(given.at(3)), '\0');
            part.resize(
                readers_.at(name).read_at(std::stoll(given.at(2)), part.data(), part.size()));
            return {part};
        } else if (operation == "write") {
            writers_.at(name).write(given.at(2));
        } else if (operation == "flush") {
            writers_.at(name).flush();
        } else if (operation == "close") {
            if (const auto writer = writers_.find(name); writer != writers_.end()) {
                writer->second.close();
            } else {
                readers_.at(name).close();
            }
        } else {
            std::fprintf(stderr, "no operation %s\n", operation.c_str());
            std::abort();
        }
        return {};
    }

    void open(const std::string& name, const std::string& path, const std::string& mode) {
        if (mode == "read") {
            readers_.emplace(name, client_->open_reader(path));
        } else if (mode == "append") {
            writers_.emplace(name, client_->append(path));
        } else {
            strait::CreateOptions options;
            options.overwrite = mode == "overwrite";
            writers_.emplace(name, client_->create(path, options));
        }
    }

    std::shared_ptr<strait::Client> client_;
    std::map<std::string, std::shared_ptr<strait::Client>> clients_;
    std::map<std::string, strait::Reader> readers_;
    std::map<std::string, strait::Writer> writers_;
};

} // namespace

int main() {
    std::ios::sync_with_stdio(false);
    Driver driver;
    for (Parts request; read_parts(request);) {
        try {
            Parts answer = driver.perform(request);
            answer.insert(answer.begin(), "ok");
            write_parts(answer);
        } catch (const strait::Error& error) {
            write_parts({"error", error.kind_name(), error.path(), error.what(),
                         std::string(typeid(error).name()) + " " + error.code().message()});
        }
    }
    // The library's destructors wait for gateways, which are gone with the test.
    std::_Exit(0);
}
