// Reads paths on standard input, each on a line, and prints the MD5 of each file: by libhdfs and a
// pipe to md5sum, as a program does that pulls its data. With the argument "hosts" it prints a host
// of each file's first byte instead.
#include <fcntl.h>
#include <hdfs.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

namespace {

bool print_host(hdfsFS fs, const std::string& path) {
    char*** hosts = hdfsGetHosts(fs, path.c_str(), 0, 1);
    if (hosts == nullptr || hosts[0] == nullptr || hosts[0][0] == nullptr) {
        return false;
    }
    std::cout << path << ' ' << hosts[0][0] << std::endl;
    hdfsFreeHosts(hosts);
    return true;
}

bool print_digest(hdfsFS fs, const std::string& path, std::vector<char>& buffer) {
    hdfsFile file = hdfsOpenFile(fs, path.c_str(), O_RDONLY, 0, 0, 0);
    FILE* md5sum = file == nullptr ? nullptr : popen("md5sum", "w");
    if (md5sum == nullptr) {
        return false;
    }
    tSize read;
    // Hadoop's library returns a packet at most, so a short read isn't the end.
    while ((read = hdfsRead(fs, file, buffer.data(), static_cast<tSize>(buffer.size()))) > 0) {
        fwrite(buffer.data(), 1, static_cast<size_t>(read), md5sum);
    }
    bool all_went_well = pclose(md5sum) == 0 && read == 0;
    return hdfsCloseFile(fs, file) == 0 && all_went_well;
}

} // namespace

int main(int argc, char** argv) {
    bool wants_hosts = argc > 1 && std::strcmp(argv[1], "hosts") == 0;
    std::vector<char> buffer(64 << 20);
    hdfsFS fs = hdfsConnect("default", 0);
    if (fs == nullptr) {
        std::perror("hdfsConnect");
        return 1;
    }
    std::string path;
    while (std::getline(std::cin, path)) {
        if (wants_hosts ? !print_host(fs, path) : !print_digest(fs, path, buffer)) {
            std::perror(path.c_str());
            return 1;
        }
    }
    return hdfsDisconnect(fs) == 0 ? 0 : 1;
}
