%% @private A connection to a gateway, for one caller at a time. Its socket belongs to the process that uses it, and
%% closes with that process.
-module(strait_connection).
-export([open/3, call/5, is_local/1, is_stale/1, give/2, close/1]).
-export([attached_to/2, incarnation/1, now_ms/0, left/1]).
-export_type([t/0, answer/0]).

-record(connection, {
    transport :: gen_tcp | ssl,
    socket :: gen_tcp:socket() | ssl:sslsocket(),
    address :: binary(),
    number = 0 :: non_neg_integer(),
    %% Of the session to which it is attached.
    incarnation :: integer() | undefined
}).

-opaque t() :: #connection{}.

%% `lost': it broke, and the request may have arrived. `silent': no answer in time, or the gateway ended TLS.
-type answer() ::
    {ok, strait_wire:fields(), t()}
    | {error, strait_error:t(), t()}
    | {lost, Why :: binary()}
    | {silent, strait_error:t()}.

%% Field deadline_ms, which each request has.
-define(DEADLINE, 15).
-define(MAX_REPLY_BYTES, (16 bsl 20)).
%% Most bytes for which memory is taken as soon as a gateway announces them. An answer to a read fits.
-define(PIECE_BYTES, (2 bsl 20)).
-define(MAX_I32, 16#7fffffff).

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).

%% A deadline is a time of this clock.
-spec left(integer()) -> non_neg_integer().
left(By) -> min(max(By - now_ms(), 0), ?MAX_I32).

%% `lost': no gateway accepts the connection.
-spec open(strait_uri:t(), strait:tls(), integer()) ->
    {ok, t()} | {lost, binary()} | {error, strait_error:t()}.
open(#{host := Host, port := Port} = Uri, Tls, By) ->
    Address = strait_uri:address(Uri),
    case connect(addresses(binary_to_list(Host), By), Port, By, nxdomain) of
        {ok, Socket} when Tls =:= false ->
            {ok, #connection{transport = gen_tcp, socket = Socket, address = Address}};
        {ok, Socket} ->
            shake_hands(Socket, Host, Tls, Address, By);
        {error, Why} ->
            {lost, iolist_to_binary(["no gateway at ", Address, ": ", explained(Why)])}
    end.

addresses(Host, By) ->
    case inet:parse_address(Host) of
        {ok, Literal} -> [Literal];
        {error, einval} -> resolved(Host, By)
    end.

%% In a process of its own, since a resolver knows no deadline.
resolved(Host, By) ->
    Answer = alias([reply]),
    _ = spawn(fun() -> Answer ! {Answer, lookup(Host)} end),
    receive
        {Answer, Addresses} -> Addresses
    after left(By) ->
        _ = unalias(Answer),
        receive
            {Answer, Addresses} -> Addresses
        after 0 -> []
        end
    end.

lookup(Host) -> lists:append([Found || Family <- [inet, inet6], {ok, Found} <- [inet:getaddrs(Host, Family)]]).

%% Each address gets a share of the time.
connect([], _, _, Why) ->
    {error, Why};
connect([Address | Others], Port, By, _) ->
    Options = [binary, {active, false}, {nodelay, true}, family(Address)],
    case gen_tcp:connect(Address, Port, Options, left(By) div (1 + length(Others))) of
        {ok, Socket} -> {ok, Socket};
        {error, Why} -> connect(Others, Port, By, Why)
    end.

family(Address) when tuple_size(Address) =:= 4 -> inet;
family(_) -> inet6.

shake_hands(Socket, Host, Tls, Address, By) ->
    case strait_tls:connect(Socket, binary_to_list(Host), Tls, left(By)) of
        {ok, Secure} ->
            {ok, #connection{transport = ssl, socket = Secure, address = Address}};
        {error, Why} ->
            discard(gen_tcp, Socket),
            failed_handshake(Why, Address)
    end.

failed_handshake(timeout, Address) ->
    {error, strait_error:new(timed_out, ["no TLS handshake in time with ", Address], undefined, true)};
failed_handshake({tls_alert, _} = Alert, Address) ->
    {error, strait_error:new(unauthenticated, ["no TLS with ", Address, ": ", explained(Alert)])};
failed_handshake({options, _} = Why, _) ->
    {error, strait_error:new(invalid_argument, io_lib:format("the options of TLS: ~0tp", [Why]))};
failed_handshake(Why, Address) ->
    {lost, iolist_to_binary(["no TLS with ", Address, ": ", explained(Why)])}.

%% One request and its reply. Only a connection that is returned is fit for another request.
-spec call(t(), Method :: binary(), strait_wire:request(), Path :: binary() | undefined, integer()) -> answer().
call(#connection{number = Last} = Connection, Method, Request, Path, By) ->
    Number = (Last + 1) band ?MAX_I32,
    Frame = strait_wire:request(Method, Number, Request ++ [{?DEADLINE, i32, max(1, left(By))}]),
    case exchange(Connection, Frame, By) of
        {ok, Bytes} ->
            Reply = strait_wire:reply(Bytes, Method, Number),
            answer(Reply, Connection#connection{number = Number}, Method, Path);
        {error, Why} ->
            broken(Why, Connection, Method, Path)
    end.

exchange(Connection, Frame, By) ->
    case send(Connection, Frame, By) of
        ok ->
            case receive_bytes(Connection, 4, By) of
                {ok, <<Length:32>>} when Length =< ?MAX_REPLY_BYTES -> receive_pieces(Connection, Length, By, []);
                {ok, <<Length:32>>} -> {error, ["a reply of ", integer_to_binary(Length), " bytes"]};
                Error -> Error
            end;
        Error ->
            Error
    end.

answer({ok, #{1 := _} = Fields}, Connection, _, Path) ->
    {error, strait_error:of_reply(strait_wire:struct(1, Fields), Path), Connection};
answer({ok, Fields}, Connection, _, _) ->
    {ok, strait_wire:struct(0, Fields), Connection};
answer({refused, Why}, Connection, Method, Path) ->
    {error, strait_error:new(internal, ["the gateway refuses ", Method, ": ", Why], Path), Connection};
answer({malformed, Why}, Connection, Method, Path) ->
    broken(Why, Connection, Method, Path).

broken(Why, #connection{transport = Transport, socket = Socket, address = Address} = Connection, Method, Path) ->
    discard(Transport, Socket),
    case Why of
        timeout ->
            Message = [Method, ": the gateway ", Address, " gave no answer in time"],
            {silent, strait_error:new(timed_out, Message, Path, true)};
        {tls_alert, _} ->
            Message = ["the gateway ", Address, " ends TLS: ", explained(Why)],
            {silent, strait_error:new(unauthenticated, Message, Path)};
        _ ->
            Message = ["the connection to ", Address, " broke: ", explained(Why), hint(Why, Connection)],
            {lost, iolist_to_binary(Message)}
    end.

hint(closed, #connection{transport = gen_tcp, number = 0}) ->
    "; if the gateway wants TLS, connect with the option tls";
hint(closed, #connection{transport = ssl, number = 0}) ->
    %% In TLS 1.3 this is how a client learns that the gateway rejects its certificate.
    "; if the gateway wants a client's certificate, options of tls name it";
hint(_, _) ->
    "".

send(#connection{transport = Transport, socket = Socket}, Frame, By) ->
    case left(By) of
        0 ->
            {error, timeout};
        Left ->
            case setopts(Transport, Socket, [{send_timeout, Left}]) of
                ok -> Transport:send(Socket, Frame);
                Error -> Error
            end
    end.

setopts(gen_tcp, Socket, Options) -> inet:setopts(Socket, Options);
setopts(ssl, Socket, Options) -> ssl:setopts(Socket, Options).

receive_pieces(_, 0, _, Pieces) ->
    {ok, iolist_to_binary(lists:reverse(Pieces))};
receive_pieces(Connection, Length, By, Pieces) ->
    Size = min(Length, ?PIECE_BYTES),
    case receive_bytes(Connection, Size, By) of
        {ok, Bytes} when Size =:= Length, Pieces =:= [] -> {ok, Bytes};
        {ok, Bytes} -> receive_pieces(Connection, Length - Size, By, [Bytes | Pieces]);
        Error -> Error
    end.

%% The limit holds for all the bytes together.
receive_bytes(#connection{transport = Transport, socket = Socket}, Length, By) ->
    Transport:recv(Socket, Length, left(By)).

explained(Why) when is_binary(Why); is_list(Why) -> Why;
explained(closed) -> "it ended";
explained(timeout) -> "it doesn't accept the connection";
explained({tls_alert, {_, Text}}) -> string:trim(Text);
explained(Why) when is_atom(Why) ->
    case inet:format_error(Why) of
        "unknown POSIX error" ++ _ -> atom_to_list(Why);
        Text -> Text
    end;
explained(Why) ->
    io_lib:format("~0tp", [Why]).

-spec is_local(t()) -> boolean().
is_local(#connection{transport = Transport, socket = Socket}) ->
    Peer =
        case Transport of
            gen_tcp -> inet:peername(Socket);
            ssl -> ssl:peername(Socket)
        end,
    case Peer of
        {ok, {{127, _, _, _}, _}} -> true;
        {ok, {{0, 0, 0, 0, 0, 0, 0, 1}, _}} -> true;
        {ok, {{0, 0, 0, 0, 0, 16#ffff, High, _}, _}} -> High bsr 8 =:= 127;
        _ -> false
    end.

%% Whether the gateway has closed it, or sent what nobody asked for, while it was idle.
-spec is_stale(t()) -> boolean().
is_stale(#connection{transport = Transport, socket = Socket}) ->
    Transport:recv(Socket, 0, 0) =/= {error, timeout}.

%% Another process is to use it. The caller is the one that used it up to now.
-spec give(t(), pid()) -> ok | {error, term()}.
give(#connection{transport = Transport, socket = Socket}, Process) ->
    Transport:controlling_process(Socket, Process).

-spec attached_to(Incarnation :: integer(), t()) -> t().
attached_to(Incarnation, Connection) -> Connection#connection{incarnation = Incarnation}.

-spec incarnation(t()) -> integer() | undefined.
incarnation(#connection{incarnation = Incarnation}) -> Incarnation.

-spec close(t()) -> ok.
close(#connection{transport = Transport, socket = Socket}) -> discard(Transport, Socket).

%% Without waiting until a silent gateway has taken the bytes that are still to go.
discard(gen_tcp, Socket) ->
    _ = inet:setopts(Socket, [{linger, {true, 0}}]),
    gen_tcp:close(Socket);
discard(ssl, Socket) ->
    _ = spawn(fun() -> ssl:close(Socket) end),
    ok.
