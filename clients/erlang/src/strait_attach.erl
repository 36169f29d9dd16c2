%% @private Connections that are attached to a session, by its token or by a login.
-module(strait_attach).
-export([open/3]).

-define(CONNECT_MS, 10_000).
%% Of one readRange or appendData, if the gateway allows as many.
-define(MAX_CHUNK_BYTES, (1 bsl 20)).
-define(PROTOCOL_VERSION, 1).

%% Opens a connection, and returns it with the session's settings. Without a client, it is the session's first one.
-spec open(pid() | none, strait_session:settings(), integer()) ->
    {ok, strait_connection:t(), strait_session:settings()} | {lost, binary()} | {error, strait_error:t()}.
open(Client, #{uri := Uri, options := #{tls := Tls} = Options} = Settings, By) ->
    case strait_connection:open(Uri, Tls, min(By, strait_connection:now_ms() + ?CONNECT_MS)) of
        {ok, Connection} ->
            case Tls =/= false orelse strait_connection:is_local(Connection) orelse not has_secret(Options) of
                true ->
                    attached(attach(Client, Connection, Settings, By), Settings);
                false ->
                    strait_connection:close(Connection),
                    Message = "a password or token isn't sent to another machine in clear text",
                    {error, strait_error:new(unauthenticated, [Message, "; connect with the option tls"])}
            end;
        Failed ->
            Failed
    end.

has_secret(#{password := Password, token := Token}) -> Password =/= undefined orelse Token =/= undefined.

attached({ok, Reply, Connection}, #{token := Token} = Settings) ->
    Store = strait_wire:struct(4, Reply),
    Incarnation = strait_wire:integer(7, Reply),
    Attached = Settings#{
        token := present(strait_wire:binary(1, Reply), Token),
        user := strait_wire:binary(3, Reply),
        store := #{
            name => strait_wire:binary(1, Store),
            uri => strait_wire:binary(2, Store),
            capabilities => [Name || Name <- strait_wire:list(3, Store), is_binary(Name)]
        },
        incarnation := Incarnation,
        max_chunk_bytes := chunk(strait_wire:integer(1, strait_wire:struct(6, Reply)))
    },
    {ok, strait_connection:attached_to(Incarnation, Connection), Attached};
attached({error, Error, Connection}, _) ->
    strait_connection:close(Connection),
    {error, Error};
attached({silent, Error}, _) ->
    {error, Error};
attached({lost, _} = Lost, _) ->
    Lost.

present(<<>>, Known) -> Known;
present(Told, _) -> Told.

chunk(Bytes) when Bytes > 0 -> min(Bytes, ?MAX_CHUNK_BYTES);
chunk(_) -> ?MAX_CHUNK_BYTES.

attach(Client, Connection, #{token := undefined} = Settings, By) ->
    log_in(Client, Connection, Settings, By);
attach(Client, Connection, #{token := Token, options := #{token := Given}} = Settings, By) ->
    case open_session(Connection, [{5, text, Token}], By) of
        %% It has ended. A token of the program's own has no login behind it.
        {error, #{kind := unauthenticated}, Same} when Given =:= undefined -> log_in(Client, Same, Settings, By);
        Answer -> Answer
    end.

%% Callers share one login, and its error.
log_in(none, Connection, Settings, By) ->
    send_login(Connection, Settings, By);
log_in(Client, Connection, #{token := Refused} = Settings, By) ->
    case strait_session:log_in(Client, Refused, max(1, strait_connection:left(By))) of
        go ->
            Answer = send_login(Connection, Settings, By),
            strait_session:logged_in(Client, outcome(Answer)),
            Answer;
        {token, Token} ->
            open_session(Connection, [{5, text, Token}], By);
        {lost, _} = Lost ->
            strait_connection:close(Connection),
            Lost;
        {error, Error} ->
            {error, Error, Connection}
    end.

send_login(Connection, #{options := #{store := Store, user := User, password := Password}}, By) ->
    open_session(Connection, [{2, text, Store}, {3, text, User}, {4, text, Password}], By).

open_session(Connection, Request, By) ->
    strait_connection:call(Connection, <<"openSession">>, [{1, i32, ?PROTOCOL_VERSION} | Request], undefined, By).

outcome({ok, Reply, _}) -> {token, strait_wire:binary(1, Reply)};
outcome({lost, _} = Lost) -> Lost;
outcome({silent, Error}) -> {error, Error};
outcome({error, Error, _}) -> {error, Error}.
