%% erl -noinput -pa EBIN -run bare_calls main read|write HOST:PORT PATH MIB: as bare_calls.rb, by Thrift's generated
%% code and runtime for Erlang.
-module(bare_calls).
-export([main/1]).
-include("dfs_types.hrl").

-define(PIECE_BYTES, (1 bsl 20)).

main([Action, Gateway, Path, Mib]) ->
    [Host, Number] = string:split(Gateway, ":"),
    {ok, New} = thrift_client_util:new(Host, list_to_integer(Number), dfs_v2_thrift, [{framed, true}]),
    {Client, _} = call(New, openSession, #'OpenSessionRequest'{version = 1}),
    Port = open_port({fd, 0, 1}, [stream, binary, eof]),
    port_command(Port, "ready\n"),
    receive {Port, {data, _}} -> ok end,
    work(Action, Client, list_to_binary(Path), list_to_integer(Mib)),
    port_command(Port, "done\n"),
    halt(0).

call(Client, Method, Request) ->
    {Next, {ok, Reply}} = thrift_client:call(Client, Method, [Request]),
    {Next, Reply}.

work("read", Client, Path, Mib) ->
    {Opened, #'OpenFileReply'{handle = Handle}} = call(Client, openFile, #'OpenFileRequest'{path = Path}),
    Last = lists:foldl(
        fun(N, Current) ->
            Range = #'ReadRangeRequest'{handle = Handle, offset = N * ?PIECE_BYTES, length = ?PIECE_BYTES},
            {Next, #'ReadRangeReply'{data = Data}} = call(Current, readRange, Range),
            ?PIECE_BYTES = iolist_size(Data),
            Next
        end, Opened, lists:seq(0, Mib - 1)),
    call(Last, closeFile, #'CloseFileRequest'{handle = Handle});
work("write", Client, Path, Mib) ->
    Create = #'CreateFileRequest'{path = Path, request_id = id()},
    {Opened, #'OpenWriterReply'{handle = Handle}} = call(Client, createFile, Create),
    Piece = binary:copy(<<0>>, ?PIECE_BYTES),
    Last = lists:foldl(
        fun(N, Current) ->
            Append = #'AppendDataRequest'{handle = Handle, expected_offset = N * ?PIECE_BYTES, data = Piece,
                                          request_id = id()},
            element(1, call(Current, appendData, Append))
        end, Opened, lists:seq(0, Mib - 1)),
    call(Last, closeFile, #'CloseFileRequest'{handle = Handle, request_id = id()}).

id() -> list_to_binary([rand:uniform(256) - 1 || _ <- lists:seq(1, 16)]).
