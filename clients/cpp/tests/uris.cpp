/// URIs: the cases of all client languages, and the parsing of addresses.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>
#include <strait/strait.hpp>

#include "support/gateway.hpp"

using namespace testing;

TEST_CASE("a URI has the parts that every client finds") {
    std::ifstream file(STRAIT_REPOSITORY "/clients/conformance/cases.json");
    const auto cases = nlohmann::json::parse(file)["uris"];
    REQUIRE(cases.size() > 40);
    for (const auto& expected : cases) {
        const std::string text = expected["uri"];
        CAPTURE(text);
        nlohmann::json found;
        try {
            const strait::Uri uri = strait::Uri::parse(text);
            found = {{"uri", text}, {"host", uri.host}, {"port", uri.port}, {"path", uri.path}};
            found["store"] = uri.store.empty() ? nlohmann::json() : nlohmann::json(uri.store);
        } catch (const strait::Error& error) {
            found = {{"uri", text}, {"error", error.kind_name()}};
            CHECK(std::string(error.what()).find(":password") == std::string::npos);
            if (expected.contains("says")) {
                const std::string says = expected["says"];
                CHECK(std::string(error.what()).find(says) != std::string::npos);
                found["says"] = says;
            }
        }
        CHECK(found == expected);
    }
}

TEST_CASE("the gateway of a URI is an address of the same store") {
    for (const char* text : {"strait://gw/@lab/a", "strait://[::1]:1/@@lab", "strait://gw:7/a"}) {
        const strait::Uri uri = strait::Uri::parse(text);
        const strait::Uri again = strait::Uri::parse(uri.gateway());
        CHECK(again.host == uri.host);
        CHECK(again.port == uri.port);
        CHECK(again.store == uri.store);
    }
}

TEST_CASE("an address has no path, and names one store at most") {
    CHECK_THROWS_WITH_AS(strait::Client("strait://gw/a"), doctest::Contains("no path"),
                         strait::InvalidArgument);
    strait::Options options;
    options.store = "archive";
    CHECK_THROWS_WITH_AS(strait::Client("strait://gw/@lab", options), doctest::Contains("give one"),
                         strait::InvalidArgument);
}

TEST_CASE("a URI reaches the store that it names") {
    const Scratch main, lab;
    const auto write = [](const std::string& path, const char* content) {
        std::ofstream(path) << content;
    };
    std::filesystem::create_directory(main / "@lab");
    write(main / "file", "main");
    write(main / "@lab/file", "a directory named @lab");
    write(lab / "file", "lab");
    const Gateway gateway("file://" + main.path(), {"--store", "lab=file://" + lab.path()});
    for (const auto& [path, content] : std::vector<std::pair<std::string, std::string>>{
             {"/file", "main"}, {"/@lab/file", "lab"}, {"/@@lab/file", "a directory named @lab"}}) {
        const auto uri = strait::Uri::parse("strait://" + gateway.address() + path);
        CHECK(strait::Client(uri.gateway()).open_reader(uri.path).read_all() == content);
    }
}
