%% The client at gateways that are hostile, full, or replaced.
-module(strait_gateway_tests).
-include_lib("eunit/include/eunit.hrl").

-define(TIMEOUT_MS, 400).
%% For a busy machine.
-define(SOON_MS, 2_000).

connected(Answer) ->
    {ok, _} = application:ensure_all_started(strait),
    Address = fake_gateway:start(fun
        (<<"openSession">>, _) -> fake_gateway:sessions(1);
        (<<"closeSession">>, _) -> {ok, []};
        (Method, Fields) -> Answer(Method, Fields)
    end),
    {ok, Client} = strait:connect(Address, #{timeout => ?TIMEOUT_MS}),
    Client.

%% Kinds of errors by code, as the gateway sends them.
failure(Code) -> {error, [{1, i32, Code}, {3, text, <<"told">>}]}.

kind_in_time(Function) ->
    {Microseconds, {error, #{kind := Kind}}} = timer:tc(Function),
    ?assert(Microseconds < 1000 * (?TIMEOUT_MS + ?SOON_MS)),
    Kind.

a_deadline_is_whole_test_() ->
    [
        {Name, fun() ->
            Client = connected(fun(_, _) -> Answer end),
            ?assertEqual(timed_out, kind_in_time(fun() -> strait:stat(Client, "/a") end)),
            ok = strait:disconnect(Client)
        end}
     || {Name, Answer} <- [
            {"silent", silent},
            {"half", {raw, <<0, 0, 1, 0, 16#8001:16>>}},
            {"a byte at a time", {slowly, [{3, binary, binary:copy(<<0>>, 1000)}]}}
        ]
    ].

a_gateway_that_reads_no_more_is_silent_test() ->
    Client = connected(fun
        (<<"createFile">>, _) -> {ok, [{1, i64, 1}]};
        (_, _) -> deaf
    end),
    {ok, File} = strait:open(Client, "/a", [write]),
    Megabyte = binary:copy(<<0>>, 1 bsl 20),
    ok = strait:write(File, Megabyte),
    %% The connection takes one that nobody reads, at most.
    ?assertEqual(timed_out, kind_in_time(fun() -> strait:write(File, Megabyte) end)),
    ?assertEqual(timed_out, kind_in_time(fun() -> strait:close(File) end)),
    ok = strait:disconnect(Client).

claimed_lengths_take_no_memory_test() ->
    [
        begin
            Client = connected(fun(_, _) -> {raw, <<Length:32, 0>>} end),
            {error, #{kind := Kind}} = strait:stat(Client, "/a"),
            ?assert(lists:member(Kind, [unavailable, timed_out])),
            ok = strait:disconnect(Client)
        end
     || Length <- [16#ffffffff, 16#7fffffff, (16 bsl 20) + 1, 16 bsl 20]
    ].

a_full_store_keeps_the_bytes_test() ->
    Test = self(),
    Full = counters:new(1, []),
    Client = connected(fun
        (<<"createFile">>, _) ->
            {ok, [{1, i64, 5}]};
        (<<"appendData">>, #{2 := Id, 5 := Offset, 6 := Data}) ->
            counters:add(Full, 1, 1),
            Test ! {append, Id, Offset, Data},
            case counters:get(Full, 1) of
                1 -> failure(11);
                2 -> failure(13);
                _ -> {ok, []}
            end;
        (_, _) ->
            {ok, []}
    end),
    {ok, File} = strait:open(Client, "/a", [write]),
    ok = strait:write(File, "abc"),
    ?assertMatch({error, #{kind := no_space, path := <<"/a">>}}, strait:sync(File)),
    ?assertMatch({error, #{kind := unavailable}}, strait:close(File)),
    ok = strait:write(File, "d"),
    ?assertEqual({ok, 4}, strait:position(File, cur)),
    ok = strait:close(File),
    [First, Second, Third] = [receive {append, Id, 0, Data} -> {Id, Data} end || _ <- [1, 2, 3]],
    ?assertMatch([{_, <<"abc">>}, {_, <<"abc">>}, {_, <<"abcd">>}], [First, Second, Third]),
    ?assertEqual(3, length(lists:usort([First, Second, Third]))),
    ok = strait:disconnect(Client).

another_error_ends_the_file_test() ->
    Client = connected(fun
        (<<"createFile">>, _) -> {ok, [{1, i64, 5}]};
        (<<"flushFile">>, _) -> failure(14);
        (_, _) -> {ok, []}
    end),
    {ok, File} = strait:open(Client, "/a", [write]),
    ?assertMatch({error, #{kind := corrupt}}, strait:sync(File)),
    ?assertMatch({error, #{kind := corrupt}}, strait:write(File, "x")),
    ?assertEqual({error, eio}, file:write(File, "x")),
    ?assertMatch({error, #{kind := corrupt}}, strait:close(File)),
    ?assertMatch({error, #{kind := invalid_argument}}, strait:close(File)),
    ok = strait:disconnect(Client).

a_repeated_change_has_its_id_test() ->
    Test = self(),
    Client = connected(fun(<<"makeDirectories">>, #{2 := Id} = Fields) ->
        IsRetry = strait_wire:integer(3, Fields),
        Test ! {Id, IsRetry},
        case IsRetry of
            0 -> cut;
            1 -> {ok, []}
        end
    end),
    ok = strait:make_dirs(Client, "/a"),
    Id = receive {First, 0} -> First end,
    receive {Second, 1} -> ?assertEqual(Id, Second) end,
    ok = strait:disconnect(Client).

%% A gateway whose first session ends after its first file is open.
replaced(Answer) ->
    {ok, _} = application:ensure_all_started(strait),
    Sessions = counters:new(1, []),
    Address = fake_gateway:start(fun
        (<<"openSession">>, #{5 := <<"token-1">>}) ->
            failure(7);
        (<<"openSession">>, #{5 := <<"token-", Session/binary>>}) ->
            fake_gateway:sessions(binary_to_integer(Session));
        (<<"openSession">>, _) ->
            counters:add(Sessions, 1, 1),
            fake_gateway:sessions(counters:get(Sessions, 1));
        (Method, Fields) ->
            case counters:get(Sessions, 1) of
                1 when Method =/= <<"openFile">>, Method =/= <<"createFile">> -> failure(7);
                Session -> Answer(Method, Fields, Session)
            end
    end),
    {ok, Client} = strait:connect(Address, #{timeout => 5_000}),
    {Client, Sessions}.

callers_share_a_login_test() ->
    {Client, Sessions} = replaced(fun(_, _, _) -> {ok, [{2, i64, 1}]} end),
    Callers = [spawn_monitor(fun() -> {ok, _} = strait:status(Client) end) || _ <- lists:seq(1, 20)],
    [receive {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason) end || {_, Monitor} <- Callers],
    ?assertEqual(2, counters:get(Sessions, 1)),
    ok = strait:disconnect(Client).

a_reader_goes_on_in_the_same_file_only_test_() ->
    [
        {Name, fun() ->
            {Client, _} = replaced(fun
                (<<"openFile">>, _, 1) -> {ok, [{1, i64, 1}, {2, i64, 9}, {3, binary, <<"file">>}]};
                (<<"openFile">>, _, _) -> {ok, [{1, i64, 2}, {2, i64, Length}, {3, binary, Identity}]};
                (<<"readRange">>, #{2 := 2}, _) -> {ok, [{1, binary, <<"abc">>}]};
                (<<"readRange">>, _, _) -> failure(8);
                (_, _, _) -> {ok, []}
            end),
            {ok, File} = strait:open(Client, "/a"),
            ?assertEqual(Expected, kind(strait:pread(File, 0, 3))),
            ?assertEqual(Expected, kind(strait:pread(File, 0, 3))),
            ok = strait:close(File),
            ok = strait:disconnect(Client)
        end}
     || {Name, Identity, Length, Expected} <- [
            {"the same", <<"file">>, 9, <<"abc">>},
            {"longer", <<"file">>, 10, <<"abc">>},
            {"shorter", <<"file">>, 8, unavailable},
            {"another", <<"other">>, 9, unavailable}
        ]
    ].

kind({ok, Bytes}) -> Bytes;
kind({error, #{kind := Kind}}) -> Kind.

a_writer_doesnt_go_on_in_another_session_test() ->
    {Client, _} = replaced(fun
        (<<"createFile">>, _, _) -> {ok, [{1, i64, 1}]};
        (<<"appendData">>, _, 2) -> failure(8);
        (_, _, _) -> {ok, []}
    end),
    {ok, File} = strait:open(Client, "/a", [write]),
    ok = strait:write(File, "abc"),
    ?assertMatch({error, #{kind := outcome_unknown, path := <<"/a">>}}, strait:sync(File)),
    ?assertMatch({error, #{kind := outcome_unknown}}, strait:close(File)),
    ok = strait:disconnect(Client).
