%% @private The one place that retries. States and times are those of docs/client-protocol.md.
-module(strait_call).
-export([query/4, change/4, once/4, tidy/3]).

-type client() :: pid().
-type path() :: binary() | undefined.
-type result() :: {ok, strait_wire:fields()} | {error, strait_error:t()}.

-record(call, {
    client :: client(),
    method :: binary(),
    request :: strait_wire:request(),
    path :: path(),
    is_change :: boolean(),
    by :: integer(),
    %% After a cut: when reconnecting is given up. The atom is later than any time.
    connect_by = infinity :: integer() | infinity,
    attempt = 1 :: pos_integer(),
    %% An attempt may have arrived.
    was_sent = false :: boolean(),
    has_logged_in = false :: boolean()
}).

%% With the pauses they span 1.6 to 3.1 s: a gateway's restart.
-define(ATTEMPTS, 6).
-define(FIRST_PAUSE_MS, 100).
-define(RECONNECT_MS, 10_000).
%% For a request that only cleans up, once the gateway has left a request unanswered.
-define(PARTING_MS, 2_000).
-define(ID_BYTES, 16).

%% A request that changes nothing.
-spec query(client(), binary(), strait_wire:request(), path()) -> result().
query(Client, Method, Request, Path) -> run(Client, Method, Request, Path, false).

%% A request with an id, the same in all its attempts: the gateway executes it once.
-spec change(client(), binary(), strait_wire:request(), path()) -> result().
change(Client, Method, Request, Path) -> run(Client, Method, [id() | Request], Path, true).

id() -> {2, binary, crypto:strong_rand_bytes(?ID_BYTES)}.

run(Client, Method, Request, Path, IsChange) ->
    case strait_wire:is_sound(Request) andalso strait_session:settings(Client) of
        false ->
            Message = "a path or name isn't UTF-8, or a value is out of its range",
            {error, strait_error:new(invalid_argument, Message, Path)};
        {ok, #{options := #{timeout := Timeout}}} ->
            attempt(#call{
                client = Client,
                method = Method,
                request = Request,
                path = Path,
                is_change = IsChange,
                by = strait_connection:now_ms() + Timeout
            });
        {error, Error} ->
            {error, Error#{path := Path}}
    end.

attempt(#call{client = Client, by = By, connect_by = ConnectBy} = Call) ->
    case strait_session:borrow(Client, min(By, ConnectBy)) of
        {ok, Connection} -> settle(send(Connection, Call), Call);
        {lost, Why} -> again(Why, Call);
        {error, Error} -> not_connected(Error, Call)
    end.

send(Connection, #call{method = Method, request = Request, path = Path, by = By}) ->
    strait_connection:call(Connection, Method, Request, Path, By).

settle({ok, Reply, Connection}, #call{client = Client}) ->
    strait_session:give_back(Client, Connection),
    {ok, Reply};
settle({error, #{kind := unauthenticated}, Connection}, #call{client = Client, has_logged_in = false} = Call) ->
    %% The session has expired, or its gateway was replaced.
    strait_connection:close(Connection),
    strait_session:drop_idle(Client),
    attempt(Call#call{has_logged_in = true});
settle({error, Error, Connection}, #call{client = Client}) ->
    strait_session:give_back(Client, Connection),
    {error, Error};
settle({silent, Error}, #call{client = Client, is_change = IsChange}) ->
    strait_session:count_silence(Client),
    {error, Error#{retry_safe := not IsChange}};
settle({lost, Why}, Call) ->
    again(Why, Call#call{was_sent = true}).

%% If no gateway accepts connections now, wait for one, once.
again(Why, #call{client = Client, by = By, attempt = Attempt} = Call) ->
    strait_session:drop_idle(Client),
    ConnectBy = min(Call#call.connect_by, min(By, strait_connection:now_ms() + ?RECONNECT_MS)),
    Pause = round(?FIRST_PAUSE_MS * (1 bsl (Attempt - 1)) * (0.5 + rand:uniform() / 2)),
    case Attempt =:= ?ATTEMPTS orelse Pause >= strait_connection:left(ConnectBy) of
        true ->
            strait_session:count_silence(Client),
            {error, given_up(Why, Call)};
        false ->
            timer:sleep(Pause),
            attempt(marked(Call#call{attempt = Attempt + 1, connect_by = ConnectBy}))
    end.

marked(#call{is_change = true, was_sent = true, request = Request} = Call) ->
    Call#call{request = lists:keystore(3, 1, Request, {3, bool, true})};
marked(Call) ->
    Call.

given_up(Why, #call{is_change = true, was_sent = true, method = Method, path = Path}) ->
    strait_error:new(outcome_unknown, [Method, " may have been executed: ", Why], Path);
given_up(Why, #call{path = Path}) ->
    strait_error:new(unavailable, Why, Path, true).

not_connected(#{kind := Kind, message := Message} = Error, #call{client = Client, path = Path} = Call) ->
    Kind =:= timed_out andalso strait_session:count_silence(Client),
    case Call of
        #call{is_change = true, was_sent = true} -> {error, given_up(Message, Call)};
        _ -> {error, strait_error:new(Kind, Message, Path, maps:get(retry_safe, Error))}
    end.

%% A request as it stands, sent once.
-spec once(client(), binary(), strait_wire:request(), path()) -> result().
once(Client, Method, Request, Path) ->
    case strait_session:settings(Client) of
        {ok, #{options := #{timeout := Timeout}}} -> once(Client, Method, Request, Path, Timeout);
        Error -> Error
    end.

once(Client, Method, Request, Path, Milliseconds) ->
    By = strait_connection:now_ms() + Milliseconds,
    Call = #call{client = Client, method = Method, request = Request, path = Path, is_change = false, by = By},
    case strait_session:borrow(Client, By) of
        {ok, Connection} ->
            case send(Connection, Call) of
                {lost, Why} -> {error, given_up(Why, Call)};
                Answer -> settle(Answer, Call#call{has_logged_in = true})
            end;
        {lost, Why} ->
            {error, given_up(Why, Call)};
        {error, Error} ->
            not_connected(Error, Call)
    end.

%% A request that only cleans up: after a silence it gets little time, after a second one none.
-spec tidy(client(), binary(), strait_wire:request()) -> ok.
tidy(Client, Method, Request) ->
    case strait_session:settings(Client) of
        {ok, #{silences := Silences, options := #{timeout := Timeout}}} when Silences < 2 ->
            Milliseconds =
                case Silences of
                    0 -> Timeout;
                    1 -> min(Timeout, ?PARTING_MS)
                end,
            _ = once(Client, Method, [id() || is_change(Method)] ++ Request, undefined, Milliseconds),
            ok;
        _ ->
            ok
    end.

is_change(Method) -> Method =/= <<"closeSession">>.
