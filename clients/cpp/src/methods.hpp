/// The method of the generated client for each type of request.
#pragma once

#include <type_traits>

#include <DfsV2.h>

namespace strait::detail {

namespace wire = strait::generated;

template <class Request>
struct Method;

#define STRAIT_METHOD(method, RequestType, ReplyType)                                              \
    template <>                                                                                    \
    struct Method<wire::RequestType> {                                                             \
        using Reply = wire::ReplyType;                                                             \
        static constexpr const char* name = #method;                                               \
        static constexpr auto send = &wire::DfsV2Client::send_##method;                            \
        static constexpr auto receive = &wire::DfsV2Client::recv_##method;                         \
    };

STRAIT_METHOD(serverInfo, ServerInfoRequest, ServerInfoReply)
STRAIT_METHOD(openSession, OpenSessionRequest, OpenSessionReply)
STRAIT_METHOD(closeSession, CloseSessionRequest, CloseSessionReply)
STRAIT_METHOD(getFileInfo, GetFileInfoRequest, GetFileInfoReply)
STRAIT_METHOD(listDirectory, ListDirectoryRequest, ListDirectoryReply)
STRAIT_METHOD(getBlockLocations, GetBlockLocationsRequest, GetBlockLocationsReply)
STRAIT_METHOD(getChecksum, GetChecksumRequest, GetChecksumReply)
STRAIT_METHOD(getStoreStatus, GetStoreStatusRequest, GetStoreStatusReply)
STRAIT_METHOD(openFile, OpenFileRequest, OpenFileReply)
STRAIT_METHOD(readRange, ReadRangeRequest, ReadRangeReply)
STRAIT_METHOD(createFile, CreateFileRequest, OpenWriterReply)
STRAIT_METHOD(appendFile, AppendFileRequest, OpenWriterReply)
STRAIT_METHOD(appendData, AppendDataRequest, AppendDataReply)
STRAIT_METHOD(flushFile, FlushFileRequest, FlushFileReply)
STRAIT_METHOD(closeFile, CloseFileRequest, CloseFileReply)
STRAIT_METHOD(truncateFile, TruncateFileRequest, MutationReply)
STRAIT_METHOD(makeDirectories, MakeDirectoriesRequest, MutationReply)
STRAIT_METHOD(renamePath, RenamePathRequest, MutationReply)
STRAIT_METHOD(removePath, RemovePathRequest, MutationReply)
STRAIT_METHOD(setAttributes, SetAttributesRequest, MutationReply)
STRAIT_METHOD(concatFiles, ConcatFilesRequest, MutationReply)
#undef STRAIT_METHOD

template <class Request>
using ReplyTo = typename Method<std::decay_t<Request>>::Reply;

/// Whether the request changes something, and so carries an id that identifies it.
template <class Request, class = void>
struct IsMutation : std::false_type {};
template <class Request>
struct IsMutation<Request, std::void_t<decltype(Request::request_id)>> : std::true_type {};

} // namespace strait::detail
