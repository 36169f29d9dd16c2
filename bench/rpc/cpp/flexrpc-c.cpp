// FlexRPC's C library as `make install-flexrpc` installs it, with frpcgen's stubs at both ends.
// Modes: `tcp` and `udp`.

#include "driver.hpp"

#include "null.h"

// In rpcgen's manner, the header doesn't declare it.
extern "C" void null_program_1(frpc_request*);

namespace {

void check(bool fine) {
    if (!fine)
        throw std::runtime_error(frpc_error());
}

void serve(const driver::Address& address) {
    const auto listen = address.host + ":" + std::to_string(address.port);
    check(frpc_register_program(NULL_PROGRAM, NULL_VERSION, null_program_1, 0) == 0);
    check(frpc_svc_start(listen.c_str(), nullptr) > 0);
    frpc_svc_run();
}

class C : public driver::Caller {
public:
    C(const std::string& mode, const driver::Address& callee) {
        const auto host = callee.host + ":" + std::to_string(callee.port);
        handle_ = frpc_createhandle(host.c_str(), NULL_PROGRAM, NULL_VERSION, mode.c_str());
        check(handle_ != nullptr);
    }

    ~C() override { frpc_destroyhandle(handle_); }

    void call(const std::string& bytes) override {
        argument value{static_cast<u_int>(bytes.size()), const_cast<char*>(bytes.data())};
        if (null_call_1(&value, nullptr, handle_) != FRPC_SUCCESS)
            throw std::runtime_error(frpc_outcome_of(handle_)->text);
    }

private:
    frpc_handle* handle_;
};

} // namespace

extern "C" bool_t null_call_1_svc(argument*, void*, frpc_request*) {
    return TRUE;
}

extern "C" int null_program_1_freeresult(frpc_request*, xdrproc_t, caddr_t) {
    return TRUE;
}

int main(int argc, char** argv) {
    return driver::run(argc, argv, serve, [](const std::vector<driver::Address>& callees) {
        driver::drive(
            [&](const std::string& mode) { return std::make_unique<C>(mode, callees.front()); });
    });
}
