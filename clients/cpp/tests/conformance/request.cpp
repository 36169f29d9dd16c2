/// Sends literal requests: below the client, through the generated code.
#include <type_traits>

#include "run.hpp"
#include "session.hpp"

namespace strait {

/// Access to a client's internals.
struct Internals {
    static detail::Session& session(Client& client) { return *client.session_; }
};

} // namespace strait

namespace conformance {
namespace {

namespace wire = strait::detail::wire;

// Calls visit(name, member, setter) for each field that `Struct` has.
#define STRAIT_FIELD(field)                                                                        \
    template <class Struct, class Visit, class = decltype(std::declval<Struct>().field)>           \
    void visit_##field(Struct& object, const Visit& visit, int) {                                  \
        visit(#field, object.field, [&](auto value) {                                              \
            object.__isset.field = true;                                                           \
            object.field = value;                                                                  \
        });                                                                                        \
    }                                                                                              \
    template <class Struct, class Visit>                                                           \
    void visit_##field(Struct&, const Visit&, long) {}

STRAIT_FIELD(path)
STRAIT_FIELD(source)
STRAIT_FIELD(target)
STRAIT_FIELD(handle)
STRAIT_FIELD(offset)
STRAIT_FIELD(length)
STRAIT_FIELD(request_id)
STRAIT_FIELD(is_retry)
STRAIT_FIELD(overwrite)
STRAIT_FIELD(expected_offset)
STRAIT_FIELD(data)
STRAIT_FIELD(cursor)
STRAIT_FIELD(max_entries)
STRAIT_FIELD(replace)
STRAIT_FIELD(recursive)
STRAIT_FIELD(position)
#undef STRAIT_FIELD

template <class Struct, class Visit>
void visit_fields(Struct& object, const Visit& visit) {
    visit_path(object, visit, 0);
    visit_source(object, visit, 0);
    visit_target(object, visit, 0);
    visit_handle(object, visit, 0);
    visit_offset(object, visit, 0);
    visit_length(object, visit, 0);
    visit_request_id(object, visit, 0);
    visit_is_retry(object, visit, 0);
    visit_overwrite(object, visit, 0);
    visit_expected_offset(object, visit, 0);
    visit_data(object, visit, 0);
    visit_cursor(object, visit, 0);
    visit_max_entries(object, visit, 0);
    visit_replace(object, visit, 0);
    visit_recursive(object, visit, 0);
    visit_position(object, visit, 0);
}

/// A text of any bytes, or a number; JSON's own texts are UTF-8 only.
Json as_json(const std::string& bytes) {
    return Json::binary({bytes.begin(), bytes.end()});
}
template <class Number>
Json as_json(Number number) {
    return number;
}

template <class Member>
Member from_json(const Json& value) {
    if constexpr (std::is_same_v<Member, std::string>) {
        if (value.is_binary()) {
            return {value.get_binary().begin(), value.get_binary().end()};
        }
    }
    return value.get<Member>();
}

} // namespace

template <class Request>
void Run::exchange(const Json& step) {
    Request request;
    std::size_t known = 0;
    const Json args = step.value("args", Json::object());
    visit_fields(request, [&](const char* name, auto& member, const auto& set) {
        if (args.contains(name)) {
            set(from_json<std::decay_t<decltype(member)>>(value(name, args[name])));
            ++known;
        }
    });
    require(known == args.size(), "a field that this driver doesn't know");

    strait::Client* client = &client_;
    if (step.contains("client")) {
        client = &others_.try_emplace(step["client"], address_, options_).first->second;
    }
    auto& session = strait::Internals::session(*client);
    auto reply = session.borrow(session.deadline())->call(request, {});

    const Json expect = step.value("expect", Json::object()),
               save = step.value("save", Json::object());
    visit_fields(reply, [&](const char* name, auto& member, const auto&) {
        if (expect.contains(name)) {
            require(as_json(member) == value(name, expect[name]), std::string("another ") + name);
            ++known;
        }
        if (save.contains(name)) {
            saved_[save[name]] = as_json(member);
            ++known;
        }
    });
    require(known == args.size() + expect.size() + save.size(), "the reply has no such field");
}

void Run::request(const Json& step) {
    using Exchange = void (Run::*)(const Json&);
    static const std::map<std::string, Exchange> methods = {
        {"openFile", &Run::exchange<wire::OpenFileRequest>},
        {"readRange", &Run::exchange<wire::ReadRangeRequest>},
        {"createFile", &Run::exchange<wire::CreateFileRequest>},
        {"appendFile", &Run::exchange<wire::AppendFileRequest>},
        {"appendData", &Run::exchange<wire::AppendDataRequest>},
        {"flushFile", &Run::exchange<wire::FlushFileRequest>},
        {"closeFile", &Run::exchange<wire::CloseFileRequest>},
        {"listDirectory", &Run::exchange<wire::ListDirectoryRequest>},
        {"removePath", &Run::exchange<wire::RemovePathRequest>},
        {"renamePath", &Run::exchange<wire::RenamePathRequest>},
    };
    const auto found = methods.find(step.at("method"));
    require(found != methods.end(), "a method that this driver doesn't know");
    (this->*found->second)(step);
}

Json Run::value(const std::string& key, const Json& given) {
    if (key == "path" || key == "source" || key == "target") {
        return directory_ + given.get<std::string>();
    }
    if (given.is_object()) {
        return as_json(bytes(given));
    }
    if (given.is_string() && given.get<std::string>()[0] == '$') {
        return saved_.at(given.get<std::string>().substr(1));
    }
    return given;
}

} // namespace conformance
