// File calls as the later generation made them.
#pragma once
#include <string>

#include "DfsService.h"

struct Api {
    dfsservice::DfsServiceClient &client;
    dfsservice::ClientHandle session;

    dfsservice::DfsHandle open(const std::string &path, int16_t mode) {
        dfsservice::DfsHandle file;
        client.open(file, session, path, mode);
        return file;
    }
    bool close(const dfsservice::DfsHandle &file) { return client.close(session, file); }
    std::string read(const dfsservice::DfsHandle &file, int64_t offset, int64_t len) {
        std::string data;
        client.read(data, session, file, offset, len);
        return data;
    }
    bool write(const dfsservice::DfsHandle &file, const std::string &data, int64_t offset, int64_t len) {
        return client.write(session, file, data, offset, len);
    }
    bool closeDfs() { return client.closeDfs(); }
};
