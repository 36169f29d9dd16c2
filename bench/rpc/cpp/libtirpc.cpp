// SunRPC by libtirpc, with rpcgen's stubs. Its server has one thread; a client's
// handle is one caller's. Modes: `udp`, `tcp`; `udp@N` and `tcp@N` make a
// call to each of N callees in turn, as there is no other multicast.

#include "driver.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <unistd.h>

extern "C" {
#include "null.h"
void null_program_1(struct svc_req* request, SVCXPRT* transport);
}

namespace {

/// Bytes that its stream reads and writes at a time: the most it takes.
constexpr u_int kStreamBuffer = 64 * 1024;
/// Most bytes of a datagram, its head included.
constexpr u_int kDatagram = 65507;
/// The kernel's default loses datagrams of four callers with 60 KiB each.
constexpr int kReceiveBuffer = 4 << 20;
constexpr timeval kLost{0, 200'000};
constexpr timeval kTimeout{25, 0};

sockaddr_in resolve(const driver::Address& address) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(address.port);
    if (inet_pton(AF_INET, address.host.c_str(), &where.sin_addr) != 1)
        throw std::runtime_error("not an address: " + address.host);
    return where;
}

void check(bool fine, const char* what) {
    if (!fine)
        throw std::runtime_error(what);
}

int bound(const driver::Address& address, int type) {
    const int socket = ::socket(AF_INET, type, 0);
    const int on = 1;
    const auto where = resolve(address);
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(::bind(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0, "bind");
    return socket;
}

void serve(const driver::Address& address) {
    const int stream = bound(address, SOCK_STREAM);
    check(::listen(stream, 128) == 0, "listen");
    const int datagrams = bound(address, SOCK_DGRAM);
    setsockopt(datagrams, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer);
    for (SVCXPRT* transport : {svc_vc_create(stream, kStreamBuffer, kStreamBuffer),
                               svcudp_bufcreate(datagrams, kDatagram, kDatagram)}) {
        check(transport != nullptr, "no transport");
        // Protocol 0: not told to rpcbind, which needn't run.
        check(svc_register(transport, NULL_PROGRAM, NULL_VERSION, null_program_1, 0),
              "not registered");
    }
    svc_run();
}

class Sun : public driver::Caller {
public:
    Sun(const std::string& mode, const std::vector<driver::Address>& callees) {
        const auto at = mode.find('@');
        const std::size_t degree = at == std::string::npos ? 1 : std::stoul(mode.substr(at + 1));
        const bool udp = mode.substr(0, at) == "udp";
        for (std::size_t i = 0; i < degree; ++i) {
            auto where = resolve(callees.at(i));
            int socket = RPC_ANYSOCK;
            CLIENT* client = udp ? clntudp_bufcreate(&where, NULL_PROGRAM, NULL_VERSION, kLost,
                                                     &socket, kDatagram, kDatagram)
                                 : clnttcp_create(&where, NULL_PROGRAM, NULL_VERSION, &socket,
                                                  kStreamBuffer, kStreamBuffer);
            check(client != nullptr, clnt_spcreateerror("libtirpc"));
            auto timeout = kTimeout;
            clnt_control(client, CLSET_TIMEOUT, reinterpret_cast<char*>(&timeout));
            if (!udp) {
                const int on = 1;
                setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            }
            clients_.push_back(client);
        }
    }

    ~Sun() override {
        for (auto* client : clients_)
            clnt_destroy(client);
    }

    void call(const std::string& bytes) override {
        for (auto* client : clients_) {
            argument value{static_cast<u_int>(bytes.size()), const_cast<char*>(bytes.data())};
            // As rpcgen's own stub does, whose result for void lies in a static
            // variable, shared by all threads.
            char nothing = 0;
            const auto status =
                clnt_call(client, NULL_CALL, reinterpret_cast<xdrproc_t>(xdr_argument),
                          reinterpret_cast<char*>(&value), reinterpret_cast<xdrproc_t>(xdr_void),
                          &nothing, kTimeout);
            check(status == RPC_SUCCESS, clnt_sperrno(status));
        }
    }

private:
    std::vector<CLIENT*> clients_;
};

} // namespace

extern "C" void* null_call_1_svc(argument*, struct svc_req*) {
    static char nothing;
    return &nothing;
}

int main(int argc, char** argv) {
    return driver::run(argc, argv, serve, [](const std::vector<driver::Address>& callees) {
        driver::drive(
            [&](const std::string& mode) { return std::make_unique<Sun>(mode, callees); });
    });
}
