// A stand-in for Sector's client: a directory of this host, for tests on hosts without Sector. It is not Sector.
//
//   c++ -shared -fPIC -I include -DSTANDIN_ROOT='"/srv/data"' standin.cc -o libclient.so
//
// It has the peculiarities of Sector's client: a failed open leaves a dead object; the first open after a move
// fails; a writer's file is busy; opening for writing creates and doesn't truncate; move goes into a directory;
// connections are lost during reads, some for good; written bytes wait in the client.
//
// Licence: Apache-2.0
#include <sector.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace {

constexpr int64_t MOST_AT_ONCE = 30000;
// Of all reads, these lose the connection: the client connects anew, or the object is dead.
constexpr unsigned RECONNECTS_EVERY = 5, DIES_EVERY = 13;

struct Open {
    std::string path;
    int fd = -1;
    int mode = 0;
    bool tried = false, dead = false;
    int64_t position = 0;
    std::string waiting; // written bytes
};

std::mutex lock;
std::map<int, Open> files;
std::map<std::string, int> writers;
std::map<std::string, int> moved; // new names whose next opens fail
int next_id = 1;
std::atomic<unsigned> reads{0};

std::string host_path(const std::string &path) {
    return std::string(STANDIN_ROOT) + path;
}

int code_of(int number) {
    switch (number) {
    case ENOTDIR:
    case ENOENT: return SectorError::E_NOEXIST;
    case EEXIST: return SectorError::E_EXIST;
    case ENOTEMPTY: return SectorError::E_NOEMPTY;
    case ENOSPC: return SectorError::E_NODISK;
    case EACCES: return SectorError::E_PERMISSION;
    default: return SectorError::E_RESOURCE;
    }
}

void describe(const struct stat &from, const std::string &name, SNode &node) {
    node.m_strName = name;
    node.m_bIsDir = S_ISDIR(from.st_mode);
    node.m_llSize = node.m_bIsDir ? 0 : from.st_size;
    node.m_llTimeStamp = from.st_mtim.tv_sec;
    node.m_sLocation.clear();
    if (!node.m_bIsDir) node.m_sLocation = {{"192.0.2.1", 9000}, {"192.0.2.2", 9000}};
    node.m_iReplicaNum = 2;
}

int send_waiting(Open &file) {
    const std::string bytes = std::move(file.waiting);
    file.waiting.clear();
    const auto begin = file.position - static_cast<int64_t>(bytes.size());
    const auto wrote = bytes.empty() ? 0 : pwrite(file.fd, bytes.data(), bytes.size(), begin);
    return wrote == static_cast<ssize_t>(bytes.size()) ? 0 : SectorError::E_NODISK;
}

} // namespace

int Sector::init() {
    std::fprintf(stderr, "This is a stand-in on the directory %s, not the real Sector.\n", STANDIN_ROOT);
    return 0;
}

int Sector::login(const std::string &, const int &port, const std::string &user, const std::string &, const char *) {
    if (port <= 0) return SectorError::E_MASTER;
    return user == "nobody" ? -2002 : 1; // no such account
}

int Sector::logout() {
    return 0;
}

int Sector::close() {
    return 0;
}

int Sector::list(const std::string &path, std::vector<SNode> &attr) {
    DIR *directory = opendir(host_path(path).c_str());
    if (directory == nullptr) return code_of(errno);
    while (const dirent *entry = readdir(directory)) {
        const std::string name = entry->d_name;
        struct stat found;
        if (name == "." || name == ".." || fstatat(dirfd(directory), entry->d_name, &found, 0) != 0) continue;
        attr.emplace_back();
        describe(found, name, attr.back());
    }
    closedir(directory);
    return static_cast<int>(attr.size());
}

int Sector::stat(const std::string &path, SNode &attr) {
    struct stat found;
    if (::stat(host_path(path).c_str(), &found) != 0) return code_of(errno);
    describe(found, fs::path(path).filename(), attr);
    return 0;
}

int Sector::mkdir(const std::string &path) {
    std::error_code error;
    if (fs::exists(host_path(path), error)) return SectorError::E_EXIST;
    fs::create_directories(host_path(path), error);
    return error ? code_of(error.value()) : 0;
}

int Sector::move(const std::string &oldpath, const std::string &newpath) {
    SNode target;
    std::string to = newpath;
    if (stat(newpath, target) == 0) {
        if (!target.m_bIsDir) return SectorError::E_EXIST;
        to += "/" + fs::path(oldpath).filename().string();
    }
    if (std::rename(host_path(oldpath).c_str(), host_path(to).c_str()) != 0) return code_of(errno);
    const std::lock_guard<std::mutex> guard(lock);
    moved[to] = 1;
    return 0;
}

int Sector::remove(const std::string &path) {
    return std::remove(host_path(path).c_str()) == 0 ? 0 : code_of(errno);
}

int Sector::rmr(const std::string &path) {
    std::error_code error;
    if (fs::remove_all(host_path(path), error) == 0) return SectorError::E_NOEXIST;
    return error ? code_of(error.value()) : 0;
}

int Sector::copy(const std::string &, const std::string &) {
    std::abort(); // it would return before the copy is there
}

SectorFile *Sector::createSectorFile() {
    const std::lock_guard<std::mutex> guard(lock);
    auto *made = new SectorFile;
    made->m_iID = next_id++;
    files[made->m_iID];
    return made;
}

int Sector::releaseSectorFile(SectorFile *sf) {
    const std::lock_guard<std::mutex> guard(lock);
    Open &file = files.at(sf->m_iID);
    if (file.fd >= 0) std::abort(); // the real one leaves its session open
    files.erase(sf->m_iID);
    delete sf;
    return 0;
}

static Open &of(int id) {
    const std::lock_guard<std::mutex> guard(lock);
    return files.at(id);
}

int SectorFile::open(const std::string &filename, int mode, const SF_OPT *) {
    const std::lock_guard<std::mutex> guard(lock);
    Open &file = files.at(m_iID);
    if (file.tried) return SectorError::E_INVALID;
    file.tried = true;
    for (auto &[name, failures] : moved)
        if (failures > 0 && (filename == name || filename.compare(0, name.size() + 1, name + "/") == 0)) {
            failures--;
            return SectorError::E_CONNECTION;
        }
    if (writers[filename] > 0) return SectorError::E_BUSY;
    const bool writes = mode & SF_MODE::WRITE;
    if (!writes && (mode & (SF_MODE::TRUNC | SF_MODE::APPEND))) return SectorError::E_PERMISSION;
    const int flags = writes ? O_WRONLY | O_CREAT | (mode & SF_MODE::TRUNC ? O_TRUNC : 0) : O_RDONLY;
    file.fd = ::open(host_path(filename).c_str(), flags | O_CLOEXEC, 0644);
    if (file.fd < 0) return code_of(errno);
    file.path = filename;
    file.mode = mode;
    file.position = mode & SF_MODE::APPEND ? lseek(file.fd, 0, SEEK_END) : 0;
    if (writes) writers[filename]++;
    return 0;
}

int64_t SectorFile::read(char *buf, const int64_t &offset, const int64_t &size, const int64_t &) {
    Open &file = of(m_iID);
    if (file.fd < 0) return SectorError::E_FILENOTOPEN;
    if (file.dead) return SectorError::E_INVALID;
    const unsigned count = ++reads;
    if (count % DIES_EVERY == 0) {
        file.dead = true;
        return SectorError::E_BROKENPIPE;
    }
    if (count % RECONNECTS_EVERY == 0) return 0;
    const ssize_t got = pread(file.fd, buf, static_cast<size_t>(std::min(size, MOST_AT_ONCE)), offset);
    return got < 0 ? SectorError::E_CONNECTION : got;
}

int64_t SectorFile::write(const char *buf, const int64_t &size) {
    Open &file = of(m_iID);
    if (file.fd < 0) return SectorError::E_FILENOTOPEN;
    if (!(file.mode & SF_MODE::WRITE)) return SectorError::E_PERMISSION;
    const int64_t taken = std::min(size, MOST_AT_ONCE);
    file.waiting.append(buf, static_cast<size_t>(taken));
    file.position += taken;
    const int sent = file.waiting.size() > 4096 ? send_waiting(file) : 0;
    return sent < 0 ? sent : taken;
}

int64_t SectorFile::tellp() {
    return of(m_iID).position;
}

int SectorFile::flush() {
    Open &file = of(m_iID);
    return file.fd < 0 ? SectorError::E_FILENOTOPEN : send_waiting(file);
}

int SectorFile::close() {
    Open &file = of(m_iID);
    if (file.fd < 0) return SectorError::E_FILENOTOPEN;
    const int sent = send_waiting(file);
    const std::lock_guard<std::mutex> guard(lock);
    if (file.mode & SF_MODE::WRITE) writers[file.path]--;
    ::close(file.fd);
    file.fd = -1;
    return sent;
}

std::string SectorError::getErrorMsg(int ecode) {
    switch (ecode) {
    case E_NOEXIST: return "file or directory does not exist";
    case E_BUSY: return "file busy";
    default: return "stand-in's text of error " + std::to_string(ecode);
    }
}
