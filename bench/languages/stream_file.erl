%% erl -noinput -pa EBIN -run stream_file main read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for
%% Erlang.
-module(stream_file).
-export([main/1]).

-define(PIECE_BYTES, (1 bsl 20)).

main([Action, Gateway, Path, Mib]) ->
    {ok, _} = application:ensure_all_started(strait),
    {ok, Client} = strait:connect(Gateway),
    Port = open_port({fd, 0, 1}, [stream, binary, eof]),
    port_command(Port, "ready\n"),
    receive {Port, {data, _}} -> ok end,
    work(Action, Client, Path, list_to_integer(Mib)),
    port_command(Port, "done\n"),
    ok = strait:disconnect(Client),
    halt(0).

work("read", Client, Path, Mib) ->
    {ok, File} = strait:open(Client, Path),
    Length = Mib * ?PIECE_BYTES,
    Length = read(File, 0),
    ok = strait:close(File);
work("write", Client, Path, Mib) ->
    {ok, File} = strait:open(Client, Path, [exclusive]),
    Piece = binary:copy(<<0>>, ?PIECE_BYTES),
    [ok = strait:write(File, Piece) || _ <- lists:seq(1, Mib)],
    ok = strait:close(File).

read(File, Bytes) ->
    case strait:read(File, ?PIECE_BYTES) of
        {ok, Piece} -> read(File, Bytes + byte_size(Piece));
        eof -> Bytes
    end.
