%% Answers the requests of tests/languages/driver.py: erl -noinput -s driver.
-module(driver).
-export([start/0]).

-record(state, {
    client :: pid() | undefined,
    clients = #{} :: #{binary() => pid()},
    files = #{} :: #{binary() => pid()}
}).

-define(TYPES, #{2 => bool, 6 => i16, 8 => i32, 10 => i64, 11 => binary}).

-spec start() -> no_return().
start() ->
    {ok, _} = application:ensure_all_started(strait),
    %% The standard input and output as bytes.
    serve(open_port({fd, 0, 1}, [stream, binary, eof]), <<>>, #state{}).

serve(Port, Buffer, State) ->
    case message(Buffer) of
        {[Operation | Given], Rest} ->
            {Answer, Next} = answer(Operation, Given, State),
            true = port_command(Port, encoded(Answer)),
            serve(Port, Rest, Next);
        more ->
            receive
                {Port, {data, Bytes}} ->
                    serve(Port, <<Buffer/binary, Bytes/binary>>, State);
                {Port, eof} ->
                    lists:foreach(fun strait:disconnect/1, maps:values(State#state.clients)),
                    halt(0)
            end
    end.

message(<<Count:32, Bytes/binary>>) -> parts(Count, Bytes, []);
message(_) -> more.

parts(0, Rest, Parts) -> {lists:reverse(Parts), Rest};
parts(Count, <<Length:32, Part:Length/binary, Rest/binary>>, Parts) -> parts(Count - 1, Rest, [Part | Parts]);
parts(_, _, _) -> more.

encoded(Parts) -> [<<(length(Parts)):32>> | [[<<(byte_size(Part)):32>>, Part] || Part <- Parts]].

answer(Operation, Given, State) ->
    case run(Operation, Given, State) of
        {{ok, Results}, Next} -> {[<<"ok">> | [part(Result) || Result <- Results]], Next};
        {ok, Next} -> {[<<"ok">>], Next};
        {{error, Error}, Next} -> {error_parts(Error), Next}
    end.

part(Bytes) when is_binary(Bytes) -> Bytes;
part(Number) when is_integer(Number) -> integer_to_binary(Number);
part(Name) when is_atom(Name) -> atom_to_binary(Name).

error_parts(#{kind := Kind, path := Path, message := Message} = Error) ->
    Name = [string:titlecase(Word) || Word <- string:split(atom_to_list(Kind), "_", all)],
    Shown =
        case Path of
            undefined -> <<>>;
            _ -> Path
        end,
    [<<"error">>, list_to_binary(Name), Shown, Message, atom_to_binary(strait_error:posix(Error))].

%% Operations on clients and files change the state.
run(<<"connect">>, [Name, Address, Timeout], #state{clients = Clients} = State) ->
    case strait:connect(Address, #{timeout => integer(Timeout)}) of
        {ok, Client} ->
            {ok, #{store := #{capabilities := Capabilities}}} = strait:session(Client),
            Next = State#state{client = Client, clients = Clients#{Name => Client}},
            {{ok, [iolist_to_binary(lists:join(",", Capabilities))]}, Next};
        Error ->
            {Error, State}
    end;
run(<<"use">>, [Name], #state{clients = Clients} = State) ->
    {ok, State#state{client = maps:get(Name, Clients)}};
run(<<"disconnect">>, [Name], #state{clients = Clients} = State) ->
    {Client, Others} = maps:take(Name, Clients),
    {strait:disconnect(Client), State#state{clients = Others}};
run(<<"open">>, [Name, Path, Mode, Permission], #state{client = Client, files = Files} = State) ->
    case strait:open(Client, Path, modes(Mode) ++ [{permission, integer(Permission)} || Permission =/= <<>>]) of
        {ok, File} -> {ok, State#state{files = Files#{Name => File}}};
        Error -> {Error, State}
    end;
run(<<"close">>, [Name], #state{files = Files} = State) ->
    %% One that failed to close may be closed again.
    case strait:close(maps:get(Name, Files)) of
        ok -> {ok, State#state{files = maps:remove(Name, Files)}};
        Error -> {Error, State}
    end;
run(<<"request">>, [Name, Method | Fields], #state{clients = Clients} = State) ->
    {request(maps:get(Name, Clients), Method, Fields), State};
run(Operation, [Name | Given], #state{files = Files} = State) when is_map_key(Name, Files) ->
    {with_file(Operation, maps:get(Name, Files), Given), State};
run(Operation, Given, #state{client = Client} = State) ->
    {with_client(Operation, Client, Given), State}.

modes(<<"read">>) -> [read];
modes(<<"create">>) -> [write, exclusive];
modes(<<"overwrite">>) -> [write];
modes(<<"append">>) -> [append].

with_file(<<"read">>, File, [<<"-1">>]) -> read_on(all, File, []);
with_file(<<"read">>, File, [Length]) -> read_on(integer(Length), File, []);
with_file(<<"pread">>, File, [Offset, Length]) -> bytes(strait:pread(File, integer(Offset), integer(Length)));
with_file(<<"write">>, File, [Bytes]) -> strait:write(File, Bytes);
with_file(<<"position">>, File, []) -> one(strait:position(File, cur));
with_file(<<"flush">>, File, []) -> strait:flush(File);
with_file(<<"sync">>, File, []) -> strait:sync(File).

%% To the length or the end. A read may give fewer bytes, and the next one the error.
read_on(0, _, Taken) ->
    {ok, [iolist_to_binary(Taken)]};
read_on(Left, File, Taken) ->
    %% Each number is below the atom `all`.
    case strait:read(File, min(Left, 1 bsl 20)) of
        {ok, Bytes} -> read_on(left(Left, byte_size(Bytes)), File, [Taken, Bytes]);
        eof -> {ok, [iolist_to_binary(Taken)]};
        Error -> Error
    end.

left(all, _) -> all;
left(Left, Count) -> Left - Count.

bytes(eof) -> {ok, [<<>>]};
bytes(Answer) -> one(Answer).

one({ok, Value}) -> {ok, [Value]};
one(Error) -> Error.

with_client(<<"stat">>, Client, [Path]) ->
    values([type, length, permission, replication, modified_ms, accessed_ms], strait:stat(Client, Path));
with_client(<<"exists">>, Client, [Path]) ->
    case strait:exists(Client, Path) of
        {ok, true} -> {ok, [<<"1">>]};
        {ok, false} -> {ok, [<<"0">>]};
        Error -> Error
    end;
with_client(<<"list">>, Client, [Path, Page]) ->
    case strait:list(Client, Path, options([{page_entries, Page}])) of
        {ok, Entries} -> {ok, [Name || #{name := Name} <- Entries]};
        Error -> Error
    end;
with_client(<<"mkdirs">>, Client, [Path, Permission]) ->
    strait:make_dirs(Client, Path, options([{permission, Permission}]));
with_client(<<"rename">>, Client, [Source, Target, Replace]) ->
    strait:rename(Client, Source, Target, #{replace => flag(Replace)});
with_client(<<"remove">>, Client, [Path, Recursive]) ->
    strait:remove(Client, Path, #{recursive => flag(Recursive)});
with_client(<<"attributes">>, Client, [Path, Permission, Replication, Modified, Accessed]) ->
    Given = [{permission, Permission}, {replication, Replication}, {modified_ms, Modified}, {accessed_ms, Accessed}],
    strait:set_attributes(Client, Path, options(Given));
with_client(<<"truncate">>, Client, [Path, Length]) ->
    strait:truncate(Client, Path, integer(Length));
with_client(<<"concat">>, Client, [Path | Sources]) ->
    strait:concat(Client, Path, Sources);
with_client(<<"put">>, Client, [Local, Path, Replace]) ->
    strait:put(Client, Local, Path, #{replace => flag(Replace)});
with_client(<<"locate">>, Client, [Path, Offset, Length]) ->
    Numbers = fun(#{offset := At, length := Size, hosts := Hosts}) -> [At, Size, length(Hosts)] end,
    case strait:locate(Client, Path, integer(Offset), integer(Length)) of
        {ok, Blocks} -> {ok, lists:flatmap(Numbers, Blocks)};
        Error -> Error
    end;
with_client(<<"checksum">>, Client, [Path]) ->
    values([algorithm, value], strait:checksum(Client, Path));
with_client(<<"status">>, Client, []) ->
    values([capacity, used, remaining], strait:status(Client));
with_client(<<"uri">>, _, [Text]) ->
    case strait_uri:parse(Text) of
        {ok, #{store := undefined} = Uri} -> values([host, port, store, path], {ok, Uri#{store := <<>>}});
        Answer -> values([host, port, store, path], Answer)
    end.

values(Keys, {ok, Map}) -> {ok, [maps:get(Key, Map) || Key <- Keys]};
values(_, Error) -> Error.

options(Given) -> maps:from_list([{Key, integer(Digits)} || {Key, Digits} <- Given, Digits =/= <<>>]).

integer(<<>>) -> undefined;
integer(Digits) -> binary_to_integer(Digits).

flag(Digit) -> Digit =:= <<"1">>.

request(Client, Method, Fields) ->
    case strait_call:once(Client, Method, fields(Fields), undefined) of
        {ok, Reply} ->
            Simple = maps:filter(fun(_, Value) -> is_integer(Value) orelse is_binary(Value) end, Reply),
            {ok, lists:flatmap(fun tuple_to_list/1, maps:to_list(Simple))};
        Error ->
            Error
    end.

fields([Id, Code, Value | Others]) ->
    Type = maps:get(binary_to_integer(Code), ?TYPES),
    [{binary_to_integer(Id), Type, value(Type, Value)} | fields(Others)];
fields([]) ->
    [].

value(binary, Bytes) -> Bytes;
value(bool, Digit) -> flag(Digit);
value(_, Digits) -> binary_to_integer(Digits).
