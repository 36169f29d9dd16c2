// A server of Apache Thrift's C++ library with the gateway's interface. It answers `getFileInfo`
// from memory, and nothing else. Nothing is checked, limited or looked up.
//
//   thrift-server threaded|nonblocking HOST PORT
//
// `threaded` has a thread for each connection and unframed messages, with buffers of 64 KiB: with
// the default of 512 bytes it is several times slower. `nonblocking` has a thread for each core and
// frames.

#include "DfsV2.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TNonblockingServer.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TNonblockingServerSocket.h>
#include <thrift/transport/TServerSocket.h>

using namespace apache::thrift;
using namespace apache::thrift::protocol;
using namespace apache::thrift::server;
using namespace apache::thrift::transport;

namespace {

class Memory : public dfsservice::DfsV2Null {
public:
    void getFileInfo(dfsservice::GetFileInfoReply& reply,
                     const dfsservice::GetFileInfoRequest& request) override {
        dfsservice::FileInfo info;
        info.__set_path(request.path);
        info.__set_type(dfsservice::FileType::FILE);
        info.__set_length(0);
        info.__set_block_size(64 << 20);
        info.__set_replication(1);
        info.__set_modified_ms(1'700'000'000'000);
        info.__set_accessed_ms(1'700'000'000'000);
        info.__set_permission(0644);
        info.__set_owner("root");
        info.__set_group("root");
        reply.__set_info(info);
    }
};

/// 0.17 counts a connection's bytes as one message's, and ends it at the limit.
class Buffers : public TTransportFactory {
public:
    std::shared_ptr<TTransport> getTransport(std::shared_ptr<TTransport> socket) override {
        auto limits = std::make_shared<TConfiguration>(std::numeric_limits<int>::max());
        socket->setConfiguration(limits);
        socket->updateKnownMessageSize(-1);
        return std::make_shared<TBufferedTransport>(socket, 64 * 1024, limits);
    }
};

void serve(const std::string& kind, const std::string& host, int port) {
    auto processor = std::make_shared<dfsservice::DfsV2Processor>(std::make_shared<Memory>());
    auto protocol = std::make_shared<TBinaryProtocolFactory>();
    if (kind == "threaded") {
        auto socket = std::make_shared<TServerSocket>(host, port);
        TThreadedServer(processor, socket, std::make_shared<Buffers>(), protocol).serve();
    } else if (kind == "nonblocking") {
        auto socket = std::make_shared<TNonblockingServerSocket>(host, port);
        TNonblockingServer server(processor, protocol, socket);
        server.setNumIOThreads(std::max(1U, std::thread::hardware_concurrency()));
        server.serve();
    } else {
        throw std::invalid_argument("no server " + kind);
    }
}

} // namespace

int main(int argc, char** argv) {
    try {
        if (argc != 4)
            throw std::invalid_argument("usage: thrift-server threaded|nonblocking HOST PORT");
        serve(argv[1], argv[2], std::stoi(argv[3]));
        return 0;
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
