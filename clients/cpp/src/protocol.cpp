#include "protocol.hpp"

#include <queue>
#include <string>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/TCompactProtocol.h>

#include "failure.hpp"

namespace strait::detail {
namespace {

using apache::thrift::protocol::TBinaryProtocolT;
using apache::thrift::protocol::TCompactProtocolT;
using apache::thrift::protocol::TMessageType;

// Most elements of a list from the gateway: far above a page of its listings, and affordable memory
// if a broken peer claims so many.
constexpr std::int32_t max_list_entries = 1 << 16;

class Binary : public TBinaryProtocolT<Transport> {
public:
    explicit Binary(const std::shared_ptr<Transport>& transport)
        : TBinaryProtocolT(transport, max_message_bytes, max_list_entries, true, true) {}

protected:
    std::uint32_t read_length() {
        std::int32_t length;
        readI32(length);
        return static_cast<std::uint32_t>(length);
    }
};

class Compact : public TCompactProtocolT<Transport> {
public:
    explicit Compact(const std::shared_ptr<Transport>& transport)
        : TCompactProtocolT(transport, max_message_bytes, max_list_entries) {}

protected:
    // Lengths are plain varints; the base class offers only zigzag ones.
    std::uint32_t read_length() {
        std::int32_t zigzag;
        readI32(zigzag);
        return (static_cast<std::uint32_t>(zigzag) << 1) ^ static_cast<std::uint32_t>(zigzag >> 31);
    }
};

/// Numbers requests and checks the numbers and methods of replies, which the generated code
/// doesn't. Otherwise a gateway that answers out of order could return one file's bytes for
/// another's.
///
/// Receives a reply's payload into the sink, if there is one: a std::string would be cleared and
/// copied.
template <class Protocol>
class Client final : public Protocol {
public:
    using Protocol::Protocol;

    std::uint32_t writeMessageBegin_virt(const std::string& name, TMessageType type,
                                         const std::int32_t) override {
        awaited_.push(name);
        return Protocol::writeMessageBegin_virt(name, type, static_cast<std::int32_t>(++requests_));
    }

    std::uint32_t readMessageBegin_virt(std::string& name, TMessageType& type,
                                        std::int32_t& sequence) override {
        const std::uint32_t size = Protocol::readMessageBegin_virt(name, type, sequence);
        const bool is_reply = type == apache::thrift::protocol::T_REPLY ||
                              type == apache::thrift::protocol::T_EXCEPTION;
        if (!is_reply || static_cast<std::uint32_t>(sequence) != ++replies_ || awaited_.empty() ||
            name != awaited_.front()) {
            throw ConnectionLost("a reply to another request came", true);
        }
        awaited_.pop();
        return size;
    }

    std::uint32_t readBinary_virt(std::string& text) override {
        Transport::Sink* sink = this->trans_->take_sink();
        if (sink == nullptr) {
            return Protocol::readBinary_virt(text);
        }
        const std::uint32_t length = this->read_length();
        if (length > sink->room) {
            throw ConnectionLost("more bytes came than were asked for", true);
        }
        sink->filled = this->trans_->readAll(sink->into, length);
        return length;
    }

private:
    std::uint32_t requests_ = 0, replies_ = 0;
    std::queue<std::string> awaited_; // methods of requests without a reply
};

} // namespace

std::shared_ptr<apache::thrift::protocol::TProtocol>
protocol_of(Wire wire, const std::shared_ptr<Transport>& transport) {
    if (wire == Wire::binary || wire == Wire::framed_binary) {
        return std::make_shared<Client<Binary>>(transport);
    }
    return std::make_shared<Client<Compact>>(transport);
}

} // namespace strait::detail
