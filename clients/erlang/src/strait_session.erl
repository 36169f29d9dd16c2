%% @private A client's process: a login, and the connections that are idle. Requests run in the processes of the
%% callers, which borrow a connection each (strait_call).
-module(strait_session).
-behaviour(gen_server).
-export([start_link/2, settings/1, borrow/2, give_back/2, drop_idle/1, count_silence/1, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, format_status/1]).
-export_type([settings/0, options/0]).

-type options() :: #{
    store := binary() | undefined,
    user := binary() | undefined,
    password := binary() | undefined,
    token := binary() | undefined,
    tls := strait:tls(),
    timeout := pos_integer()
}.

-type settings() :: #{
    uri := strait_uri:t(),
    options := options(),
    token := binary() | undefined,
    user := binary(),
    store := strait:store(),
    %% If a handle has another one, the handle is gone.
    incarnation := integer(),
    max_chunk_bytes := pos_integer(),
    %% Requests without an answer, since the last one with an answer.
    silences := non_neg_integer()
}.

-record(state, {
    settings :: settings(),
    idle = [] :: [strait_connection:t()],
    %% The process that logs in, and those that wait for the outcome.
    login = none :: none | {pid(), reference(), [gen_server:from()]},
    is_closed = false :: boolean()
}).

-define(CONNECT_MS, 10_000).
-define(MAX_IDLE, 8).
-define(MAX_CHUNK_BYTES, (1 bsl 20)).
-define(PROTOCOL_VERSION, 1).
%% For the session's end, if its owner has ended without it.
-define(PARTING_MS, 2_000).

%% Attaches once: an address that is wrong is told at once.
-spec start_link(strait_uri:t(), options()) -> {ok, pid()} | {error, strait_error:t()}.
start_link(Uri, #{timeout := Timeout, token := Token} = Options) ->
    Settings = #{
        uri => Uri,
        options => Options,
        token => Token,
        user => <<>>,
        store => #{name => <<>>, uri => <<>>, capabilities => []},
        incarnation => 0,
        max_chunk_bytes => ?MAX_CHUNK_BYTES,
        silences => 0
    },
    case open(none, Settings, strait_connection:now_ms() + Timeout) of
        {ok, Connection, Attached} ->
            {ok, Client} = gen_server:start_link(?MODULE, Attached, []),
            give_back(Client, Connection),
            {ok, Client};
        {lost, Why} ->
            {error, strait_error:new(unavailable, Why, undefined, true)};
        {error, _} = Error ->
            Error
    end.

-spec settings(pid()) -> {ok, settings()} | {error, strait_error:t()}.
settings(Client) -> ask(Client, settings, infinity).

%% Ends the process; the session on the gateway has been closed before.
-spec stop(pid()) -> ok.
stop(Client) ->
    _ = ask(Client, stop, infinity),
    ok.

%% A connection that is attached to the session, for the calling process.
-spec borrow(pid(), integer()) ->
    {ok, strait_connection:t()} | {lost, binary()} | {error, strait_error:t()}.
borrow(Client, By) ->
    case ask(Client, borrow, infinity) of
        {connect, Settings} ->
            case open(Client, Settings, By) of
                {ok, Connection, Attached} ->
                    gen_server:cast(Client, {attached, Attached}),
                    {ok, Connection};
                Failed ->
                    Failed
            end;
        Answer ->
            Answer
    end.

-spec give_back(pid(), strait_connection:t()) -> ok.
give_back(Client, Connection) ->
    case strait_connection:give(Connection, Client) of
        ok -> gen_server:cast(Client, {give_back, Connection});
        {error, _} -> strait_connection:close(Connection)
    end.

-spec drop_idle(pid()) -> ok.
drop_idle(Client) -> gen_server:cast(Client, drop_idle).

-spec count_silence(pid()) -> ok.
count_silence(Client) -> gen_server:cast(Client, silence).

ask(Client, Question, Timeout) ->
    try
        gen_server:call(Client, Question, Timeout)
    catch
        exit:{timeout, _} ->
            {error, strait_error:new(timed_out, "the login of another request takes too long", undefined, true)};
        exit:_ ->
            {error, strait_error:new(invalid_argument, "the client is closed")}
    end.

%% Attaching

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
    {ok, strait_connection:mark(Connection, Incarnation), Attached};
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
    case ask(Client, {log_in, Refused}, max(1, strait_connection:left(By))) of
        go ->
            Answer = send_login(Connection, Settings, By),
            gen_server:cast(Client, {logged_in, self(), outcome(Answer)}),
            Answer;
        {token, Token} ->
            open_session(Connection, [{5, text, Token}], By);
        {lost, _} = Lost ->
            strait_connection:close(Connection),
            Lost;
        {error, Error} ->
            %% If the time was over just before the answer `go'.
            gen_server:cast(Client, {logged_in, self(), {error, Error}}),
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

%% The process

-spec init(settings()) -> {ok, #state{}}.
init(Settings) ->
    %% So that terminate/2 runs when the owner ends.
    _ = process_flag(trap_exit, true),
    {ok, #state{settings = Settings}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}} | {noreply, #state{}} | {stop, normal, ok, #state{}}.
handle_call(settings, _, #state{settings = Settings} = State) ->
    {reply, {ok, Settings}, State};
handle_call(borrow, {Caller, _}, #state{settings = Settings, idle = Idle} = State) ->
    case lend(Caller, Idle) of
        {Connection, Left} -> {reply, {ok, Connection}, State#state{idle = Left}};
        none -> {reply, {connect, Settings}, State#state{idle = []}}
    end;
handle_call({log_in, Refused}, {Caller, _}, #state{settings = #{token := Token}, login = none} = State) ->
    case Token of
        Refused -> {reply, go, State#state{login = {Caller, monitor(process, Caller), []}}};
        _ -> {reply, {token, Token}, State}
    end;
handle_call({log_in, _}, From, #state{login = {Holder, Monitor, Waiting}} = State) ->
    {noreply, State#state{login = {Holder, Monitor, [From | Waiting]}}};
handle_call(stop, _, State) ->
    {stop, normal, ok, State#state{is_closed = true}}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({attached, Attached}, #state{settings = Settings} = State) ->
    Told = maps:with([token, user, store, incarnation, max_chunk_bytes], Attached),
    {noreply, State#state{settings = maps:merge(Settings, Told)}};
handle_cast({give_back, Connection}, #state{settings = Settings, idle = Idle} = State) ->
    Fits = strait_connection:mark(Connection) =:= maps:get(incarnation, Settings) andalso length(Idle) < ?MAX_IDLE,
    Kept = [Connection || Fits] ++ Idle,
    Fits orelse strait_connection:close(Connection),
    {noreply, State#state{idle = Kept, settings = Settings#{silences := 0}}};
handle_cast(drop_idle, #state{idle = Idle} = State) ->
    lists:foreach(fun strait_connection:close/1, Idle),
    {noreply, State#state{idle = []}};
handle_cast(silence, #state{settings = #{silences := Silences} = Settings} = State) ->
    {noreply, State#state{settings = Settings#{silences := Silences + 1}}};
handle_cast({logged_in, Holder, Outcome}, #state{login = {Holder, Monitor, Waiting}} = State) ->
    _ = demonitor(Monitor, [flush]),
    {noreply, tell(Outcome, Waiting, State)};
handle_cast({logged_in, _, _}, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', Monitor, process, _, _}, #state{login = {_, Monitor, Waiting}} = State) ->
    {noreply, tell({lost, <<"the process that logged in has ended">>}, Waiting, State)};
handle_info(_, State) ->
    {noreply, State}.

tell(Outcome, Waiting, #state{settings = Settings} = State) ->
    lists:foreach(fun(From) -> gen_server:reply(From, Outcome) end, Waiting),
    Known =
        case Outcome of
            {token, Token} -> Settings#{token := Token};
            _ -> Settings
        end,
    State#state{settings = Known, login = none}.

lend(_, []) ->
    none;
lend(Caller, [Connection | Others]) ->
    case not strait_connection:is_stale(Connection) andalso strait_connection:give(Connection, Caller) of
        ok ->
            {Connection, Others};
        _ ->
            strait_connection:close(Connection),
            lend(Caller, Others)
    end.

%% The owner has ended without strait:disconnect/1.
-spec terminate(term(), #state{}) -> ok.
terminate(_, #state{is_closed = false, idle = [Connection | _]}) ->
    By = strait_connection:now_ms() + ?PARTING_MS,
    _ = strait_connection:call(Connection, <<"closeSession">>, [], undefined, By),
    ok;
terminate(_, _) ->
    ok.

%% Secrets stay out of reports of crashes.
-spec format_status(gen_server:format_status()) -> gen_server:format_status().
format_status(Status) ->
    maps:map(
        fun
            (state, #state{idle = Idle}) -> {idle_connections, length(Idle)};
            (message, _) -> hidden;
            (log, _) -> [];
            (_, Value) -> Value
        end,
        Status
    ).
