// Apache Thrift's C++ library. Built twice: THRIFT_FRAMED is the thread pool with
// framed messages; without it a thread a connection, unframed, with buffers of
// 64 KiB, since with the default of 512 bytes it is four to nine times slower.

#include "driver.hpp"

#include "Null.h"

#include <limits>

#include <thrift/concurrency/ThreadFactory.h>
#include <thrift/concurrency/ThreadManager.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TThreadPoolServer.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>

using namespace apache::thrift;
using namespace apache::thrift::concurrency;
using namespace apache::thrift::protocol;
using namespace apache::thrift::server;
using namespace apache::thrift::transport;

namespace {

/// 0.17 counts a connection's bytes as one message's, and ends it at the limit.
/// So the limit is the highest there is, and every order gets a new connection.
auto without_limit(std::shared_ptr<TTransport> socket) {
    auto limits = std::make_shared<TConfiguration>(std::numeric_limits<int>::max());
    socket->setConfiguration(limits);
    socket->updateKnownMessageSize(-1);
    return limits;
}

#ifdef THRIFT_FRAMED
/// As many callers as a suite has at a time, and more: a thread serves one
/// connection to its end.
constexpr std::size_t kThreads = 32;

auto wrap(std::shared_ptr<TTransport> socket) {
    return std::make_shared<TFramedTransport>(socket, without_limit(socket));
}
#else
constexpr std::uint32_t kBuffer = 64 * 1024;

auto wrap(std::shared_ptr<TTransport> socket) {
    return std::make_shared<TBufferedTransport>(socket, kBuffer, without_limit(socket));
}
#endif

class Wrapping : public TTransportFactory {
public:
    std::shared_ptr<TTransport> getTransport(std::shared_ptr<TTransport> socket) override {
        return wrap(socket);
    }
};

class Handler : public bench::NullIf {
public:
    void call(const std::string&) override {}
};

void serve(const driver::Address& address) {
    auto processor = std::make_shared<bench::NullProcessor>(std::make_shared<Handler>());
    auto socket = std::make_shared<TServerSocket>(address.host, address.port);
    auto protocol = std::make_shared<TBinaryProtocolFactory>();
    auto wrapping = std::make_shared<Wrapping>();
#ifdef THRIFT_FRAMED
    auto threads = ThreadManager::newSimpleThreadManager(kThreads);
    threads->threadFactory(std::make_shared<ThreadFactory>());
    threads->start();
    TThreadPoolServer(processor, socket, wrapping, protocol, threads).serve();
#else
    TThreadedServer(processor, socket, wrapping, protocol).serve();
#endif
}

class Thrift : public driver::Caller {
public:
    explicit Thrift(driver::Address address) : address_(std::move(address)) {}

    void begin() override {
        auto socket = std::make_shared<TSocket>(address_.host, address_.port);
        socket->setNoDelay(true);
        auto transport = wrap(socket);
        transport->open();
        client_ = std::make_unique<bench::NullClient>(std::make_shared<TBinaryProtocol>(transport));
    }

    void call(const std::string& argument) override { client_->call(argument); }

private:
    driver::Address address_;
    std::unique_ptr<bench::NullClient> client_;
};

} // namespace

int main(int argc, char** argv) {
    return driver::run(argc, argv, serve, [](const std::vector<driver::Address>& addresses) {
        driver::drive(
            [&](const std::string&) { return std::make_unique<Thrift>(addresses.front()); });
    });
}
