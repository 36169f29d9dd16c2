// A program of 2009: what the report's users did, step by step. It prints a
// line a step and stops at the first wrong answer.
//
//   story HOST PORT USER PASSWORD DIR LOCAL_DIR [framed|buffered] [binary|compact]
//
// DIR is a directory to make in the store; LOCAL_DIR lies on the gateway's host,
// below the directory that its operator named.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/TCompactProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSocket.h>

#include "api.h"
#include "dfs_constants.h"

using namespace apache::thrift;
using namespace dfsservice;

namespace {

const int64_t NEXT = -1;        // offset: go on where the last call ended
const int64_t BUFFER = 4096;    // the report's buffers
const int TIMEOUT_MS = 30000;   // a silent server fails the run

void step(const std::string &name, bool holds) {
    std::cout << (holds ? "ok    " : "WRONG ") << name << std::endl;
    if (!holds) std::exit(1);
}

template <class Call> bool refused(Call call) {
    try {
        call();
    } catch (const DfsServiceIOException &error) {
        return !error.message.empty();
    }
    return false;
}

// Every byte value, NUL and what isn't UTF-8 among them, at no round length.
std::string all_bytes() {
    std::string data;
    for (int i = 0; i < 3 * BUFFER + 1234; ++i) data.push_back(char(i * 7 + i / 256));
    return data;
}

ClientHandle unknown_client() {
    ClientHandle client;
    client.id = 4711;
    return client;
}

std::string local_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

struct Connection {
    std::shared_ptr<transport::TTransport> transport;
    std::unique_ptr<DfsServiceClient> client;

    explicit Connection(const std::vector<std::string> &args) {
        auto socket = std::make_shared<transport::TSocket>(args[1], std::atoi(args[2].c_str()));
        socket->setConnTimeout(TIMEOUT_MS);
        socket->setRecvTimeout(TIMEOUT_MS);
        if (args[7] == "framed") transport = std::make_shared<transport::TFramedTransport>(socket);
        else transport = std::make_shared<transport::TBufferedTransport>(socket);
        std::shared_ptr<protocol::TProtocol> protocol;
        if (args[8] == "compact") protocol = std::make_shared<protocol::TCompactProtocol>(transport);
        else protocol = std::make_shared<protocol::TBinaryProtocol>(transport);
        client.reset(new DfsServiceClient(protocol));
        transport->open();
    }

    Api log_in(const std::vector<std::string> &args) {
        ClientHandle session;
        client->init(session, "");
        step("init opens the default store", session.id >= 0);
        step("login with the wrong password is refused", !client->login(session, args[3], args[4] + "x"));
        step("login", client->login(session, args[3], args[4]));
        return Api{*client, session};
    }
};

void write_and_read(Api &dfs, const std::string &path) {
    const std::string data = all_bytes();
    const std::string first = data.substr(0, 1000), rest = data.substr(2000);
    DfsHandle out = dfs.open(path, g_dfs_constants.WRITE);
    step("write at offset -1", dfs.write(out, first, NEXT, first.size()));
    step("write at the running offset, part of the buffer",
         dfs.write(out, data.substr(1000), 1000, 1000));
    step("write elsewhere than at the end is refused",
         refused([&] { dfs.write(out, rest, 7, rest.size()); }));
    step("write of more than the buffer is refused",
         refused([&] { dfs.write(out, rest, 2000, rest.size() + 1); }));
    step("write goes on after a refusal", dfs.write(out, rest, 2000, rest.size()));
    step("close", dfs.close(out));
    step("close of a closed handle is false", !dfs.close(out));
    step("open for WRITE of an existing file is refused",
         refused([&] { dfs.open(path, g_dfs_constants.WRITE); }));

    DfsHandle in = dfs.open(path, g_dfs_constants.READ);
    std::string read, part;
    while (!(part = dfs.read(in, NEXT, BUFFER)).empty()) read += part;
    step("read with offset -1 gives every byte", read == data);
    step("the end stays the end", dfs.read(in, NEXT, BUFFER).empty());
    step("read at an offset", dfs.read(in, 4090, 20) == data.substr(4090, 20));
    step("read across the end is cut", dfs.read(in, data.size() - 5, 100) == data.substr(data.size() - 5));
    step("read past the end is empty", dfs.read(in, data.size() + 5, 100).empty());
    step("a negative offset is refused", refused([&] { dfs.read(in, -2, 10); }));
    step("a negative length is refused", refused([&] { dfs.read(in, 0, -1); }));
    step("write to a handle for reading is false", !dfs.write(in, "x", NEXT, 1));
    dfs.close(in);
}

void names(Api &dfs, const std::string &dir) {
    const std::string before = dir + "/before.dat", after = dir + "/after.dat";
    step("move", dfs.client.move(dfs.session, before, after));
    FileStatus status;
    step("stat of the old name is refused", refused([&] { dfs.client.stat(status, dfs.session, before); }));
    dfs.client.stat(status, dfs.session, after);
    step("stat", status.path == "after.dat" && !status.isdir && status.length == int64_t(all_bytes().size()) &&
                     status.permission.size() == 9 && !status.owner.empty() && status.modification_time > 0);
    std::vector<FileStatus> listing;
    dfs.client.listFiles(listing, dfs.session, dir);
    step("listFiles", listing.size() == 1 && listing[0] == status);
}

void local_copies(Api &dfs, const std::string &dir, const std::string &local) {
    const std::string data = all_bytes();
    std::ofstream(local + "/in.dat", std::ios::binary) << data;
    step("copyFromLocalFile", dfs.client.copyFromLocalFile(local + "/in.dat", dir + "/copy.dat"));
    step("copyToLocalFile", dfs.client.copyToLocalFile(dir + "/copy.dat", local + "/out.dat"));
    step("both copies have every byte", local_file(local + "/out.dat") == data);
    step("a path outside the operator's directory is refused",
         refused([&] { dfs.client.copyFromLocalFile("/etc/passwd", dir + "/secret"); }));
}

} // namespace

int main(int argc, char **argv) try {
    std::vector<std::string> args(argv, argv + argc);
    if (args.size() < 7) return std::cerr << "story HOST PORT USER PASSWORD DIR LOCAL_DIR [WIRE]\n", 2;
    args.resize(9);
    const std::string dir = args[5], local = args[6];

    Connection connection(args);
    ClientHandle nowhere;
    connection.client->init(nowhere, "sector://nowhere.invalid:6000");
    step("init of an unknown store selects the only one", nowhere.id > 0);
    Api dfs = connection.log_in(args);

    step("mkdir", dfs.client.mkdir(dfs.session, dir));
    FileStatus status;
    dfs.client.stat(status, dfs.session, dir);
    step("stat of a directory", status.isdir && dir == dir.substr(0, dir.rfind('/') + 1) + status.path);
    write_and_read(dfs, dir + "/before.dat");
    names(dfs, dir);
    local_copies(dfs, dir, local);
    step("move onto a directory moves into it",
         dfs.client.mkdir(dfs.session, dir + "/into") &&
             dfs.client.move(dfs.session, dir + "/after.dat", dir + "/into"));
    dfs.client.stat(status, dfs.session, dir + "/into/after.dat");
    step("remove of a full directory wants recursive",
         refused([&] { dfs.client.remove(dfs.session, dir, false); }));
    step("remove", dfs.client.remove(dfs.session, dir + "/copy.dat", false));
    step("remove of a missing file is false", !dfs.client.remove(dfs.session, dir + "/copy.dat", false));
    step("an unknown client is served by the connection's session",
         dfs.client.mkdir(unknown_client(), dir + "/into"));

    DfsHandle left_open = dfs.open(dir + "/left-open", g_dfs_constants.WRITE);
    dfs.write(left_open, "tail", NEXT, 4);
    step("closeClient", dfs.client.closeClient(dfs.session));
    step("a closed client is refused", refused([&] { dfs.client.stat(status, dfs.session, dir); }));

    Connection second(args);
    Api again = second.log_in(args);
    again.client.stat(status, again.session, dir + "/left-open");
    step("closeClient closed its files properly", status.length == 4);
    step("remove, recursively", again.client.remove(again.session, dir, true));
    step("logout", again.client.logout(again.session));
    step("closeClient again", again.client.closeClient(again.session));
    step("closeDfs after closeClient", again.closeDfs());

    Connection third(args);
    third.log_in(args);
    step("the server outlives closeDfs", true);
    return 0;
} catch (const TException &error) {
    std::cout << "WRONG unexpected: " << error.what() << std::endl;
    return 1;
}
