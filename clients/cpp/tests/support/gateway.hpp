/// Real gateways for tests.
///
/// STRAIT_BIN         the command; default target/debug/strait, then release
/// STRAIT_TEST_HDFS   hdfs://host:port, to test over it too
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include <strait/types.hpp>

namespace testing {

/// A directory of this machine, removed at the end.
class Scratch {
public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// `strait serve` on a free port, stopped with the object.
class Gateway {
public:
    explicit Gateway(const std::string& store, std::vector<std::string> arguments = {},
                     const strait::Options& options = {});
    ~Gateway();
    Gateway(const Gateway&) = delete;
    const std::string& address() const { return address_; }

protected:
    /// Of a command that lacks only its address.
    explicit Gateway(std::vector<std::string> command, const strait::Options& options = {});
    pid_t process() const { return process_; }

private:
    void wait_until_ready(const strait::Options& options);

    std::string address_;
    pid_t process_ = -1;
};

/// `strait up`, which keeps its files in a directory of the scratch.
class Kadoop : public Gateway {
public:
    explicit Kadoop(const Scratch& scratch);
};

/// `strait up`, whose datanodes have one small disk. It needs root.
class KadoopOnASmallDisk : public Gateway {
public:
    explicit KadoopOnASmallDisk(const Scratch& scratch);
    void fill() const;
    void relieve() const;

private:
    std::string ballast_;
};

/// The path of the command `strait`.
std::string command();

/// A gateway over an empty directory, shared by the tests of this program.
const std::string& shared_gateway();

/// A name that no other test uses.
std::string unique_path();

/// `length` bytes that differ between positions.
std::string pattern(std::size_t length, unsigned seed = 1);

} // namespace testing
