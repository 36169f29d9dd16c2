// Calls a gateway on every wire of Apache Thrift's C++ library.
//
//   wires HOST PORT CA_FILE
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/TCompactProtocol.h>
#include <thrift/protocol/TJSONProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/THttpClient.h>
#include <thrift/transport/TSSLSocket.h>
#include <thrift/transport/TSocket.h>

#include "DfsV2.h"

using namespace apache::thrift;
using namespace apache::thrift::protocol;
using namespace apache::thrift::transport;
using namespace dfsservice;

namespace {

void holds(bool condition, const char *what) {
    if (!condition) throw std::runtime_error(what);
}

// A byte that isn't UTF-8 is there, too: a string of 2009 is exact bytes.
const std::string TEXT = "a line, \"quoted\" \\ and \xc3\xa4\n\x01\xff";

void of_2009(DfsV2Client &client, const std::string &directory) {
    ClientHandle ch;
    client.init(ch, "");
    holds(ch.id > 0, "init");
    holds(client.mkdir(ch, directory), "mkdir");
    DfsHandle dh;
    client.open(dh, ch, directory + "/f", 2);
    holds(client.write(ch, dh, TEXT, -1, int64_t(TEXT.size())), "write");
    holds(client.close(ch, dh), "close");
    client.open(dh, ch, directory + "/f", 1);
    std::string text;
    client.read(text, ch, dh, 0, 4096);
    holds(text == TEXT, "read");
    holds(client.close(ch, dh), "close");
    try {
        FileStatus status;
        client.stat(status, ch, directory + "/missing");
        holds(false, "a missing file was found");
    } catch (const DfsServiceIOException &) {
    }
    holds(client.closeClient(ch), "closeClient");
}

void v2(DfsV2Client &client, const std::string &directory) {
    OpenSessionReply opened;
    client.openSession(opened, OpenSessionRequest());
    const std::string session = opened.token;
    std::string bytes;
    for (int i = 0; i < 1280; ++i) bytes.push_back(char(i));
    MakeDirectoriesRequest make;
    make.__set_session(session);
    make.__set_path(directory);
    MutationReply made;
    client.makeDirectories(made, make);
    CreateFileRequest create;
    create.__set_session(session);
    create.__set_path(directory + "/g");
    OpenWriterReply writer;
    client.createFile(writer, create);
    AppendDataRequest append;
    append.__set_session(session);
    append.__set_handle(writer.handle);
    append.__set_expected_offset(0);
    append.__set_data(bytes);
    AppendDataReply appended;
    client.appendData(appended, append);
    CloseFileRequest close;
    close.__set_session(session);
    close.__set_handle(writer.handle);
    CloseFileReply closed;
    client.closeFile(closed, close);
    OpenFileRequest open;
    open.__set_session(session);
    open.__set_path(directory + "/g");
    OpenFileReply file;
    client.openFile(file, open);
    ReadRangeRequest read;
    read.__set_session(session);
    read.__set_handle(file.handle);
    read.__set_offset(0);
    read.__set_length(4096);
    ReadRangeReply reply;
    client.readRange(reply, read);
    holds(reply.data == bytes, "readRange");
    try {
        GetFileInfoRequest missing;
        missing.__set_session(session);
        missing.__set_path(directory + "/missing");
        GetFileInfoReply found;
        client.getFileInfo(found, missing);
        holds(false, "a missing file was found");
    } catch (const DfsError &error) {
        holds(error.kind == "NotFound", "the error's kind");
    }
}

} // namespace

int main(int, char **argv) {
    const std::string host = argv[1];
    const int port = std::stoi(argv[2]);
    TSSLSocketFactory factory;
    factory.loadTrustedCertificates(argv[3]);
    for (const std::string protocol : {"binary", "compact", "json"}) {
        for (const std::string name : {"unframed", "framed", "http"}) {
            for (const bool tls : {false, true}) {
                for (const bool is_v2 : {false, true}) {
                    const std::string dash = "-", wire = protocol + " " + name + (tls ? " tls" : " plain");
                    const std::string cell = "cpp " + wire + (is_v2 ? " v2" : " 2009");
                    try {
                        std::shared_ptr<TSocket> socket =
                            tls ? factory.createSocket(host, port) : std::make_shared<TSocket>(host, port);
                        std::shared_ptr<TTransport> transport;
                        if (name == "http") {
                            transport = std::make_shared<THttpClient>(socket, host, "/thrift");
                        } else if (name == "framed") {
                            transport = std::make_shared<TFramedTransport>(socket);
                        } else {
                            transport = std::make_shared<TBufferedTransport>(socket);
                        }
                        std::shared_ptr<TProtocol> spoken;
                        if (protocol == "binary") spoken = std::make_shared<TBinaryProtocol>(transport);
                        if (protocol == "compact") spoken = std::make_shared<TCompactProtocol>(transport);
                        if (protocol == "json") spoken = std::make_shared<TJSONProtocol>(transport);
                        transport->open();
                        DfsV2Client client(spoken);
                        const std::string directory = "/cpp-" + protocol + dash + name + (tls ? "-tls" : "-plain");
                        (is_v2 ? v2 : of_2009)(client, directory + (is_v2 ? "-v2" : "-2009"));
                        transport->close();
                        std::cout << cell << " ok" << std::endl;
                    } catch (const std::exception &error) {
                        std::cout << cell << " WRONG " << error.what() << std::endl;
                    }
                }
            }
        }
    }
}
