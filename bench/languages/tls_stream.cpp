/// tls_stream HOST:PORT MIB CA
///
/// Reads MIB MiB from a server of bare TLS (bench/src/bare_tls.rs) by OpenSSL,
/// and nothing else. Shakes hands, prints "ready", waits for a line,
/// sends a byte, reads, prints "done". The other languages' programs do the same.
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

namespace {

void check(bool holds, const char* what) {
    if (!holds) {
        ERR_print_errors_fp(stderr);
        throw std::runtime_error(what);
    }
}

int connect_to(const std::string& host, const std::string& port) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    check(getaddrinfo(host.c_str(), port.c_str(), &hints, &found) == 0, "no such host");
    const int socket_of = socket(found->ai_family, found->ai_socktype, 0);
    check(connect(socket_of, found->ai_addr, found->ai_addrlen) == 0, "can't connect");
    freeaddrinfo(found);
    return socket_of;
}

void transfer(const std::string& address, long long mib, const char* authority) {
    const std::size_t colon = address.rfind(':');
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    check(SSL_CTX_load_verify_locations(context, authority, nullptr) == 1, "no authority");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL* stream = SSL_new(context);
    SSL_set_fd(stream, connect_to(address.substr(0, colon), address.substr(colon + 1)));
    check(SSL_connect(stream) == 1, "the handshake failed");
    std::cout << "ready" << std::endl;
    std::string go;
    std::getline(std::cin, go);
    check(SSL_write(stream, "!", 1) == 1, "can't send");
    std::vector<char> piece(1 << 20);
    for (long long left = mib << 20; left > 0;) {
        const int count = SSL_read(stream, piece.data(), static_cast<int>(piece.size()));
        check(count > 0, "the stream ended early");
        left -= count;
    }
    std::cout << "done" << std::endl;
}

} // namespace

int main(int, char** given) {
    try {
        transfer(given[1], std::stoll(given[2]), given[3]);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tls_stream: %s\n", error.what());
        return 1;
    }
}
