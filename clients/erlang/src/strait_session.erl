%% @private A client's process: a login, and the connections that are idle. Requests run in the processes of the
%% callers, which borrow a connection each (strait_call).
-module(strait_session).
-behaviour(gen_server).
-export([start_link/2, settings/1, borrow/2, give_back/2, drop_idle/1, count_silence/1, stop/1]).
-export([log_in/3, logged_in/2]).
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
    max_chunk_bytes := non_neg_integer(),
    %% Requests without an answer, since the last one with an answer.
    silences := non_neg_integer()
}.

-type outcome() :: {token, binary()} | {lost, binary()} | {error, strait_error:t()}.

-record(state, {
    settings :: settings(),
    idle = [] :: [strait_connection:t()],
    %% The process that logs in, and those that wait for the outcome.
    login = none :: none | {pid(), reference(), [gen_server:from()]},
    is_closed = false :: boolean()
}).

-define(MAX_IDLE, 8).
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
        max_chunk_bytes => 0,
        silences => 0
    },
    case strait_attach:open(none, Settings, strait_connection:now_ms() + Timeout) of
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
            case strait_attach:open(Client, Settings, By) of
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

%% The token was refused: whether the calling process logs in (`go'), or the outcome of another one's login. If it is
%% `go', the process calls logged_in/2.
-spec log_in(pid(), Refused :: binary() | undefined, timeout()) -> go | outcome().
log_in(Client, Refused, Timeout) ->
    case ask(Client, {log_in, Refused}, Timeout) of
        {error, _} = Error ->
            %% If the time was over just before the answer `go'.
            logged_in(Client, Error),
            Error;
        Answer ->
            Answer
    end.

-spec logged_in(pid(), outcome()) -> ok.
logged_in(Client, Outcome) -> gen_server:cast(Client, {logged_in, self(), Outcome}).

ask(Client, Question, Timeout) ->
    try
        gen_server:call(Client, Question, Timeout)
    catch
        exit:{timeout, _} ->
            {error, strait_error:new(timed_out, "the login of another request takes too long", undefined, true)};
        exit:_ ->
            {error, strait_error:new(invalid_argument, "the client is closed")}
    end.

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
handle_cast({give_back, Connection}, #state{settings = #{incarnation := Now} = Settings, idle = Idle} = State) ->
    Next = State#state{settings = Settings#{silences := 0}},
    case strait_connection:incarnation(Connection) =:= Now andalso length(Idle) < ?MAX_IDLE of
        true ->
            {noreply, Next#state{idle = [Connection | Idle]}};
        false ->
            strait_connection:close(Connection),
            {noreply, Next}
    end;
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
