// The part of Sector's client interface that the plugin uses, for builds on hosts without Sector.
//
// Not Sector's own header: it declares the same names with the same types, written from the interface's
// description, and holds nothing else of Sector. With -DSECTOR_HOME the plugin compiles against the header of
// that installation, and the compiler finds any difference.
//
// Licence: Apache-2.0
#ifndef STRAIT_SECTOR_STANDIN_H
#define STRAIT_SECTOR_STANDIN_H

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

struct Address {
    std::string m_strIP;
    unsigned short int m_iPort;
};

struct AddrComp {
    bool operator()(const Address &a, const Address &b) const {
        return a.m_strIP != b.m_strIP ? a.m_strIP < b.m_strIP : a.m_iPort < b.m_iPort;
    }
};

class SNode {
public:
    std::string m_strName;
    bool m_bIsDir = false;
    std::set<Address, AddrComp> m_sLocation; // of the whole file: Sector doesn't split files
    int64_t m_llTimeStamp = 0;               // seconds
    int64_t m_llSize = 0;
    int m_iReplicaNum = 0;
};

class SectorFile;

class Sector {
public:
    int init();
    int login(const std::string &server, const int &port, const std::string &username, const std::string &password,
              const char *cert = NULL);
    int logout();
    int close();

    int list(const std::string &path, std::vector<SNode> &attr);
    int stat(const std::string &path, SNode &attr);
    int mkdir(const std::string &path);
    int move(const std::string &oldpath, const std::string &newpath);
    int remove(const std::string &path);
    int rmr(const std::string &path);
    int copy(const std::string &src, const std::string &dst); // returns before the copy is there

    SectorFile *createSectorFile();
    int releaseSectorFile(SectorFile *sf);

public:
    int m_iID = 0;
};

struct SF_MODE {
    static const int READ = 1;
    static const int WRITE = 2; // creates, and doesn't truncate
    static const int TRUNC = 4;
    static const int APPEND = 8;
    static const int SECURE = 16;
    static const int HiRELIABLE = 32;
};

struct SF_OPT;

class SectorFile {
    friend class Sector;

private:
    SectorFile() {}
    ~SectorFile() {}

public:
    int open(const std::string &filename, int mode = SF_MODE::READ, const SF_OPT *option = NULL);
    int64_t read(char *buf, const int64_t &offset, const int64_t &size, const int64_t &prefetch = 0);
    int64_t write(const char *buf, const int64_t &size);
    int64_t tellp();
    int flush();
    int close();

public:
    int m_iID = 0;
};

class SectorError {
public:
    static const int E_PERMISSION = -1001;
    static const int E_EXIST = -1002;
    static const int E_NOEXIST = -1003;
    static const int E_BUSY = -1004;
    static const int E_NOEMPTY = -1006;
    static const int E_NOTDIR = -1007;
    static const int E_FILENOTOPEN = -1008;
    static const int E_NOREPLICA = -1009;
    static const int E_NOTFILE = -1010;
    static const int E_SECURITY = -2000;
    static const int E_EXPIRED = -2007;
    static const int E_AUTHORITY = -2008;
    static const int E_MASTER = -2013;
    static const int E_CONNECTION = -3000;
    static const int E_BROKENPIPE = -3001;
    static const int E_TIMEOUT = -3002;
    static const int E_RESOURCE = -4000;
    static const int E_NODISK = -4001;
    static const int E_SYSBUSY = -4002;
    static const int E_VERSION = -5000;
    static const int E_INVALID = -6000;
    static const int E_SUPPORT = -6001;
    static std::string getErrorMsg(int ecode);
};

#endif
