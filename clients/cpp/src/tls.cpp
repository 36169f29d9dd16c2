/// TLS with OpenSSL.
#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "failure.hpp"
#include "socket.hpp"

namespace strait::detail {
namespace {

template <class T, void (*Free)(T*)>
struct Freeing {
    void operator()(T* object) const { Free(object); }
};

// Several records of 16 KiB by one system call; by default there are two for each.
constexpr std::size_t read_buffer_bytes = std::size_t{128} << 10;

using Context = std::unique_ptr<SSL_CTX, Freeing<SSL_CTX, SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freeing<SSL, SSL_free>>;

// OpenSSL's own BIO for sockets writes without MSG_NOSIGNAL: a gateway that has gone would end the
// program by SIGPIPE. This one differs only in that.

/// A socket and its descriptor, as the BIO knows it.
struct Wire {
    Socket* socket;
    int descriptor;
};

/// The socket's descriptor to wait for, or -1 after the deadline.
int descriptor_of(BIO* bio) {
    const auto* wire = static_cast<const Wire*>(BIO_get_data(bio));
    if (!wire->socket->has_time()) {
        errno = EAGAIN;
        return -1;
    }
    return wire->descriptor;
}

int after(BIO* bio, ssize_t count) {
    BIO_clear_retry_flags(bio);
    if (count < 0 && errno == EINTR) {
        BIO_set_retry_write(bio);
    }
    return static_cast<int>(count);
}

int bio_write(BIO* bio, const char* data, int size) {
    const int descriptor = descriptor_of(bio);
    return after(bio, descriptor < 0
                          ? -1
                          : ::send(descriptor, data, static_cast<std::size_t>(size), MSG_NOSIGNAL));
}

int bio_read(BIO* bio, char* into, int size) {
    ssize_t count = -1;
    do {
        const int descriptor = descriptor_of(bio);
        if (descriptor < 0) {
            break;
        }
        count = ::recv(descriptor, into, static_cast<std::size_t>(size), 0);
    } while (count < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    return static_cast<int>(count);
}

long bio_control(BIO*, int command, long, void*) {
    return command == BIO_CTRL_FLUSH;
}

BIO* bio_for(Wire& wire) {
    static BIO_METHOD* const method = [] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
        BIO_meth_set_write(made, bio_write);
        BIO_meth_set_read(made, bio_read);
        BIO_meth_set_ctrl(made, bio_control);
        return made;
    }();
    BIO* bio = BIO_new(method);
    BIO_set_data(bio, &wire);
    BIO_set_init(bio, 1);
    return bio;
}

std::string reason() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    if (ERR_SYSTEM_ERROR(code)) {
        return std::generic_category().message(ERR_GET_REASON(code));
    }
    const char* text = code != 0 ? ERR_reason_error_string(code) : nullptr;
    return text != nullptr ? text : "TLS failed";
}

/// Whether the gateway sent a TLS alert, such as for a missing certificate.
bool is_alert() {
    return ERR_GET_REASON(ERR_peek_error()) > SSL_AD_REASON_OFFSET;
}

/// A gateway without TLS answers with this alert, too: it recognises a TLS client by its first
/// bytes.
bool is_handshake_failure() {
    return ERR_GET_REASON(ERR_peek_error()) == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE;
}

/// The reason and remedy if the gateway reported that our certificate is missing or bad.
const char* refusal() {
    switch (ERR_GET_REASON(ERR_peek_error()) - SSL_AD_REASON_OFFSET) {
    case SSL_AD_CERTIFICATE_REQUIRED:
        return "it wants a certificate of the client: set Tls::certificate_file and key_file";
    case SSL_AD_CERTIFICATE_EXPIRED:
        return "it rejects the client's certificate: it has expired; renew it";
    case SSL_AD_CERTIFICATE_REVOKED:
        return "it rejects the client's certificate: it was revoked; get a new one";
    case SSL_AD_UNKNOWN_CA:
        return "it doesn't trust the client's certificate; get one from the gateway's authority";
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
        return "it rejects the client's certificate; get one from the gateway's authority";
    default:
        return nullptr;
    }
}

/// The problem of the gateway's certificate, and the remedy.
const char* advice(long verdict) {
    switch (verdict) {
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "its certificate isn't valid yet; check the clocks of both machines";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "its certificate has expired; renew it at the gateway";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "its certificate is for another name; connect by that name, or renew it with "
               "this one";
    default:
        return "its certificate isn't trusted; name its authority by Tls::ca_file";
    }
}

[[noreturn]] void unusable(const std::string& file) {
    raise(ErrorKind::InvalidArgument, "TLS can't use the file: " + reason(), file);
}

Context context_of(const Tls& tls) {
    Context context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    if (tls.ca_file.empty()) {
        SSL_CTX_set_default_verify_paths(context.get());
    } else if (SSL_CTX_load_verify_file(context.get(), tls.ca_file.c_str()) != 1) {
        unusable(tls.ca_file);
    }
    if (tls.certificate_file.empty() != tls.key_file.empty()) {
        raise(ErrorKind::InvalidArgument, "TLS: a certificate and its key come together");
    }
    if (!tls.certificate_file.empty()) {
        const char* certificate = tls.certificate_file.c_str();
        if (SSL_CTX_use_certificate_chain_file(context.get(), certificate) != 1) {
            unusable(tls.certificate_file);
        }
        if (SSL_CTX_use_PrivateKey_file(context.get(), tls.key_file.c_str(), SSL_FILETYPE_PEM) !=
            1) {
            unusable(tls.key_file);
        }
    }
    return context;
}

class TlsSocket final : public Socket {
public:
    TlsSocket(int descriptor, const Endpoint& endpoint, Deadline connect_by)
        : Socket(descriptor, connect_by), wire_{this, descriptor},
          where_("TLS with " + endpoint.host + ":" + endpoint.port + ": "),
          context_(context_of(*endpoint.options.tls)), session_(SSL_new(context_.get())) {
        SSL_set_mode(session_.get(), SSL_MODE_AUTO_RETRY);
        SSL_set_read_ahead(session_.get(), 1);
        SSL_set_default_read_buffer_len(session_.get(), read_buffer_bytes);
        BIO* bio = bio_for(wire_);
        SSL_set_bio(session_.get(), bio, bio);
        expect_name(endpoint.host);
        errno = 0;
        ERR_clear_error();
        if (SSL_connect(session_.get()) != 1) {
            refused();
        }
    }

    std::size_t receive(void* into, std::size_t size) override {
        std::size_t count = 0;
        errno = 0;
        ERR_clear_error();
        if (SSL_read_ex(session_.get(), into, size, &count) != 1) {
            fail();
        }
        return count;
    }

    void send(iovec* parts, std::size_t count) override {
        for (; count != 0; ++parts, --count) {
            std::size_t sent = 0;
            errno = 0;
            ERR_clear_error();
            if (parts->iov_len != 0 &&
                SSL_write_ex(session_.get(), parts->iov_base, parts->iov_len, &sent) != 1) {
                receive_last_word();
                fail();
            }
        }
    }

private:
    void expect_name(const std::string& host) {
        unsigned char address[sizeof(in6_addr)];
        if (inet_pton(AF_INET, host.c_str(), address) == 1 ||
            inet_pton(AF_INET6, host.c_str(), address) == 1) {
            X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session_.get()), host.c_str());
            return;
        }
        SSL_set_tlsext_host_name(session_.get(), host.c_str());
        SSL_set1_host(session_.get(), host.c_str());
    }

    [[noreturn]] void refused() const {
        const bool silent = errno == EAGAIN || errno == EWOULDBLOCK;
        const bool explained = is_alert() && !is_handshake_failure();
        raise_refusal();
        const std::string why = reason();
        if (const long verdict = SSL_get_verify_result(session_.get()); verdict != X509_V_OK) {
            // A retry would change nothing.
            raise(ErrorKind::Unauthenticated,
                  where_ + advice(verdict) + " (" + X509_verify_cert_error_string(verdict) + ")");
        }
        if (silent) {
            raise(ErrorKind::TimedOut, where_ + "no answer; does it speak TLS on this port?");
        }
        throw ConnectionLost(explained ? why : why + "; does it speak TLS on this port?", false,
                             true);
    }

    void raise_refusal() const {
        if (const char* why = refusal()) {
            // A retry would change nothing.
            raise(ErrorKind::Unauthenticated, where_ + why);
        }
    }

    /// If the gateway closed: receives its TLS alert before that, for `fail`.
    void receive_last_word() const {
        const int number = errno;
        if (number != EPIPE && number != ECONNRESET) {
            return;
        }
        char ignored;
        std::size_t count;
        ERR_clear_error();
        while (SSL_read_ex(session_.get(), &ignored, 1, &count) == 1) {
        }
        errno = number;
    }

    [[noreturn]] void fail() const {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            throw Silence();
        }
        raise_refusal();
        if (is_alert()) {
            throw ConnectionLost(reason(), true, true);
        }
        throw ConnectionLost(errno != 0 ? std::generic_category().message(errno) : reason(), true);
    }

    Wire wire_;
    const std::string where_;
    Context context_;
    Session session_;
};

} // namespace

std::unique_ptr<Socket> start_tls(int descriptor, const Endpoint& endpoint, Deadline connect_by) {
    return std::make_unique<TlsSocket>(descriptor, endpoint, connect_by);
}

} // namespace strait::detail
