/// TLS, with certificates made for the tests.
#include <doctest/doctest.h>

#include <cstdlib>

#include <strait/client.hpp>

#include "support/answering.hpp"
#include "support/gateway.hpp"

using namespace testing;

namespace {

/// Makes a self-signed certificate, or one of an authority; its files are NAME.pem and NAME.key.
void make_certificate(const Scratch& scratch, const std::string& name,
                      const std::string& extensions) {
    const std::string made =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" +
        name + " " + extensions + " -keyout " + scratch / (name + ".key") + " -out " +
        scratch / (name + ".pem") + " 2>/dev/null";
    REQUIRE(std::system(made.c_str()) == 0);
}

strait::Options trusting(const std::string& file) {
    strait::Options options;
    options.tls.emplace();
    options.tls->ca_file = file;
    return options;
}

} // namespace

TEST_CASE("bytes come back over TLS, from a gateway that is who it should be") {
    const Scratch scratch;
    make_certificate(scratch, "gateway", "-addext subjectAltName=IP:127.0.0.1");
    make_certificate(scratch, "other", "-addext subjectAltName=IP:127.0.0.1");
    const strait::Options options = trusting(scratch / "gateway.pem");
    const Gateway gateway(
        "file://" + scratch.path(),
        {"--tls-cert", scratch / "gateway.pem", "--tls-key", scratch / "gateway.key"}, options);
    const std::string data = pattern(5'000'011);
    for (const strait::Wire wire : {strait::Wire::framed_binary, strait::Wire::compact}) {
        strait::Options with_wire = options;
        with_wire.wire = wire;
        strait::Client client(gateway.address(), with_wire);
        const std::string path = unique_path();
        strait::Writer writer = client.create(path);
        writer.write(data);
        writer.close();
        CHECK((client.open_reader(path).read_all() == data));
    }
    CHECK_THROWS_WITH_AS(strait::Client(gateway.address(), trusting(scratch / "other.pem")),
                         doctest::Contains("isn't trusted; name its authority"),
                         strait::Unauthenticated);
    CHECK_THROWS_AS(strait::Client(gateway.address(), trusting("")), strait::Unauthenticated);
    CHECK_THROWS_AS(strait::Client(gateway.address(), trusting(scratch / "none.pem")),
                    strait::InvalidArgument);
    const std::string by_name =
        "localhost" + gateway.address().substr(gateway.address().rfind(':'));
    CHECK_THROWS_AS(strait::Client(by_name, options), strait::Unauthenticated);
}

TEST_CASE("a gateway that asks for a certificate gets ours") {
    const Scratch scratch;
    make_certificate(scratch, "gateway", "-addext subjectAltName=IP:127.0.0.1");
    make_certificate(scratch, "authority", "");
    make_certificate(scratch, "client",
                     "-addext basicConstraints=CA:FALSE -addext extendedKeyUsage=clientAuth -CA " +
                         scratch / "authority.pem" + " -CAkey " + scratch / "authority.key");
    strait::Options options = trusting(scratch / "gateway.pem");
    options.tls->certificate_file = scratch / "client.pem";
    options.tls->key_file = scratch / "client.key";
    const Gateway gateway("file://" + scratch.path(),
                          {"--tls-cert", scratch / "gateway.pem", "--tls-key",
                           scratch / "gateway.key", "--tls-client-ca", scratch / "authority.pem"},
                          options);
    CHECK(strait::Client(gateway.address(), options).exists("/"));
    strait::Options half = options;
    half.tls->certificate_file.clear();
    CHECK_THROWS_AS(strait::Client(gateway.address(), half), strait::InvalidArgument);
    for (int round = 0; round != 20; ++round) { // whichever of the two is first
        CHECK_THROWS_WITH_AS(
            strait::Client(gateway.address(), trusting(scratch / "gateway.pem")),
            ("TLS with " + gateway.address() +
             ": it wants a certificate of the client: set Tls::certificate_file and key_file")
                .c_str(),
            strait::Unauthenticated);
    }
}

TEST_CASE("an expired certificate of the gateway is told so") {
    const Scratch scratch;
    make_certificate(scratch, "gateway", "-addext subjectAltName=IP:127.0.0.1");
    const std::string expire = "openssl x509 -days -1 -in " + scratch / "gateway.pem" +
                               " -signkey " + scratch / "gateway.key" + " -out " +
                               scratch / "expired.pem" + " 2>/dev/null";
    REQUIRE(std::system(expire.c_str()) == 0);
    // Its constructor connects, to check that it is ready.
    CHECK_THROWS_WITH_AS(
        Gateway("file://" + scratch.path(),
                {"--tls-cert", scratch / "expired.pem", "--tls-key", scratch / "gateway.key"},
                trusting(scratch / "expired.pem")),
        doctest::Contains("has expired; renew it"), strait::Unauthenticated);
}

TEST_CASE("a name that can't be resolved, and a wrong port, are told so") {
    CHECK_THROWS_WITH_AS(strait::Client("gateway.invalid"),
                         doctest::Contains("gateway.invalid can't be resolved"),
                         strait::Unavailable);
    std::string nobody;
    {
        const Answering gone("x");
        nobody = gone.address();
        CHECK_THROWS_AS(strait::Client{nobody}, strait::Unavailable);
    }
    CHECK_THROWS_WITH_AS(strait::Client{nobody}, doctest::Contains("Connection refused"),
                         strait::Unavailable);
}

TEST_CASE("a port without TLS is told so") {
    const Answering plain("this is no TLS");
    CHECK_THROWS_WITH_AS(strait::Client(plain.address(), trusting("")),
                         doctest::Contains("does it speak TLS"), strait::Unavailable);
    const Gateway gateway("file:///tmp");
    CHECK_THROWS_WITH_AS(strait::Client(gateway.address(), trusting("")),
                         doctest::Contains("does it speak TLS"), strait::Unavailable);
}

TEST_CASE("a file that TLS can't use is named, with the reason") {
    const Gateway gateway("file:///tmp");
    CHECK_THROWS_WITH_AS(strait::Client(gateway.address(), trusting("/nope.pem")),
                         "/nope.pem: TLS can't use the file: No such file or directory",
                         strait::InvalidArgument);
}
