%% A gateway of a few lines on this host. The function gets each request, as a method and its fields, and gives the
%% answer: {ok, Fields} or {error, Fields} as strait_wire:request() has them, {slowly, Fields} a byte at a time,
%% {raw, Bytes}, cut, silent, or deaf: it reads no more either.
-module(fake_gateway).
-export([start/1, sessions/1]).

%% Its address. It ends with the test.
start(Answer) ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}, {packet, raw}]),
    {ok, Port} = inet:port(Listener),
    Accepting = spawn_link(fun() -> receive go -> accept(Listener, Answer) end end),
    ok = gen_tcp:controlling_process(Listener, Accepting),
    Accepting ! go,
    "127.0.0.1:" ++ integer_to_list(Port).

%% Answers openSession with a session of this incarnation.
sessions(Incarnation) ->
    {ok, [{1, text, <<"token-", (integer_to_binary(Incarnation))/binary>>}, {7, i64, Incarnation}]}.

accept(Listener, Answer) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Serving = spawn_link(fun() -> receive go -> serve(Socket, Answer) end end),
    ok = gen_tcp:controlling_process(Socket, Serving),
    Serving ! go,
    accept(Listener, Answer).

serve(Socket, Answer) ->
    case gen_tcp:recv(Socket, 4) of
        {ok, <<Length:32>>} ->
            {ok, <<_:32, Size:32, Method:Size/binary, Number:32, _/binary>> = Frame} = gen_tcp:recv(Socket, Length),
            {ok, #{1 := Fields}} = strait_wire:reply(Frame, Method, Number),
            case Answer(Method, Fields) of
                {ok, Reply} -> send(Socket, Method, Number, 0, Reply), serve(Socket, Answer);
                {error, Reply} -> send(Socket, Method, Number, 1, Reply), serve(Socket, Answer);
                {raw, Bytes} -> gen_tcp:send(Socket, Bytes), serve(Socket, Answer);
                {slowly, Reply} -> slowly(Socket, encoded(Method, Number, 0, Reply));
                silent -> serve(Socket, Answer);
                deaf -> receive after infinity -> ok end;
                cut -> gen_tcp:close(Socket)
            end;
        {error, _} ->
            ok
    end.

send(Socket, Method, Number, Id, Reply) -> gen_tcp:send(Socket, encoded(Method, Number, Id, Reply)).

%% A reply differs from a request in its type and in the number of its field.
encoded(Method, Number, Id, Reply) ->
    Head = 4 + 3,
    <<Before:Head/binary, _, Size:32, Method:Size/binary, Number:32, Struct, 1:16, Rest/binary>> =
        iolist_to_binary(strait_wire:request(Method, Number, Reply)),
    <<Before/binary, 2, Size:32, Method/binary, Number:32, Struct, Id:16, Rest/binary>>.

slowly(Socket, <<Byte, Rest/binary>>) ->
    case gen_tcp:send(Socket, <<Byte>>) of
        ok -> receive after 20 -> slowly(Socket, Rest) end;
        {error, _} -> ok
    end.
