%% Calls of both generations of the interface, by Thrift's generator and runtime for Erlang:
%% erl -noshell -pa EBIN -run story main HOST PORT DIRECTORY
-module(story).
-export([main/1]).
-include("dfs_types.hrl").

-define(READ, 1).
-define(WRITE, 2).

main([Host, Port, Directory]) ->
    {ok, Client} = thrift_client_util:new(Host, list_to_integer(Port), dfs_v2_thrift, [{framed, true}]),
    put(client, Client),
    old(list_to_binary(Directory)),
    new(list_to_binary(Directory)),
    io:format("Erlang: both generations of calls~n"),
    halt(0).

call(Method, Arguments) ->
    {Next, {ok, Reply}} = thrift_client:call(get(client), Method, Arguments),
    put(client, Next),
    Reply.

exception(Method, Arguments) ->
    try thrift_client:call(get(client), Method, Arguments) of
        _ -> error(no_exception)
    catch
        throw:{Next, {exception, Exception}} ->
            put(client, Next),
            Exception
    end.

names(Paths) -> lists:sort([lists:last(binary:split(Path, <<"/">>, [global])) || Path <- Paths]).

id() -> list_to_binary([rand:uniform(256) - 1 || _ <- lists:seq(1, 16)]).


old(Directory) ->
    Path = <<Directory/binary, "/old">>,
    Session = call(init, [<<>>]),
    true = call(mkdir, [Session, Directory]),
    Written = call(open, [Session, Path, ?WRITE]),
    true = call(write, [Session, Written, <<"bytes", 0, 255>>, -1, 7]),
    true = call(close, [Session, Written]),
    #'FileStatus'{length = 7} = call(stat, [Session, Path]),
    Read = call(open, [Session, Path, ?READ]),
    <<"bytes", 0, 255>> = call(read, [Session, Read, 0, 100]),
    true = call(close, [Session, Read]),
    Listed = call(listFiles, [Session, Directory]),
    [<<"old">>] = names([Name || #'FileStatus'{path = Name} <- Listed]),
    #'DfsServiceIOException'{} = exception(stat, [Session, <<Directory/binary, "/missing">>]),
    true = call(closeClient, [Session]).

new(Directory) ->
    Path = <<Directory/binary, "/new">>,
    Missing = <<Directory/binary, "/missing">>,
    call(openSession, [#'OpenSessionRequest'{version = 1}]),
    #'OpenWriterReply'{handle = Writer} =
        call(createFile, [#'CreateFileRequest'{path = Path, request_id = id()}]),
    #'AppendDataReply'{position = 7} =
        call(appendData, [#'AppendDataRequest'{handle = Writer, expected_offset = 0,
                                               data = <<"bytes", 0, 255>>, request_id = id()}]),
    #'CloseFileReply'{length = 7} =
        call(closeFile, [#'CloseFileRequest'{handle = Writer, request_id = id()}]),
    #'OpenFileReply'{handle = Reader} = call(openFile, [#'OpenFileRequest'{path = Path}]),
    #'ReadRangeReply'{data = <<"tes", 0, 255>>} =
        call(readRange, [#'ReadRangeRequest'{handle = Reader, offset = 2, length = 100}]),
    call(closeFile, [#'CloseFileRequest'{handle = Reader}]),
    #'ListDirectoryReply'{entries = Entries} =
        call(listDirectory, [#'ListDirectoryRequest'{path = Directory}]),
    [<<"new">>, <<"old">>] = names([Name || #'FileInfo'{path = Name} <- Entries]),
    #'DfsError'{code = ?DFS_ERRORCODE_NOT_FOUND, kind = <<"NotFound">>, path = Missing} =
        exception(getFileInfo, [#'GetFileInfoRequest'{path = Missing}]),
    call(removePath, [#'RemovePathRequest'{path = Directory, recursive = true, request_id = id()}]),
    call(closeSession, [#'CloseSessionRequest'{}]).
