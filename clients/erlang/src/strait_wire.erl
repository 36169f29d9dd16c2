%% @private Framed Thrift, binary protocol, strict. A request is a list of its fields by their numbers in
%% idl/dfs.thrift, a reply a map from numbers to values. So no generated code is needed.
-module(strait_wire).
-export([request/3, is_sound/1, reply/3, integer/2, binary/2, struct/2, list/2]).
-export_type([request/0, fields/0]).

%% `text' is bytes in UTF-8.
-type type() :: bool | i16 | i32 | i64 | binary | text | texts.
%% A field whose value is `undefined' isn't sent.
-type request() :: [{Number :: integer(), type(), integer() | boolean() | binary() | [binary()] | undefined}].
-type value() :: integer() | binary() | fields() | [value()].
-type fields() :: #{integer() => value()}.

-define(VERSION, 16#8001).
-define(CALL, 1).
-define(EXCEPTION, 3).

-define(STOP, 0).
-define(BOOL, 2).
-define(BYTE, 3).
-define(DOUBLE, 4).
-define(I16, 6).
-define(I32, 8).
-define(I64, 10).
-define(BINARY, 11).
-define(STRUCT, 12).
-define(MAP, 13).
-define(SET, 14).
-define(LIST, 15).

%% Messages nest four levels at most.
-define(MAX_DEPTH, 16).
%% Of a reply's structs and items, which take far more memory than bytes. A page of a listing has some thousand.
-define(MAX_VALUES, 16#40000).

%% A whole frame.
-spec request(Method :: binary(), Number :: non_neg_integer(), request()) -> iodata().
request(Method, Number, Request) ->
    Head = <<?VERSION:16, ?CALL:16, (byte_size(Method)):32, Method/binary, Number:32, ?STRUCT, 1:16>>,
    Message = [Head, [field(Field) || Field <- Request], ?STOP, ?STOP],
    [<<(iolist_size(Message)):32>>, Message].

field({_, _, undefined}) -> [];
field({Id, bool, true}) -> <<?BOOL, Id:16, 1>>;
field({Id, bool, false}) -> <<?BOOL, Id:16, 0>>;
field({Id, i16, Value}) -> <<?I16, Id:16, Value:16>>;
field({Id, i32, Value}) -> <<?I32, Id:16, Value:32>>;
field({Id, i64, Value}) -> <<?I64, Id:16, Value:64>>;
field({Id, text, Value}) -> field({Id, binary, Value});
field({Id, binary, Value}) -> [<<?BINARY, Id:16, (byte_size(Value)):32>>, Value];
field({Id, texts, Values}) ->
    [<<?LIST, Id:16, ?BINARY, (length(Values)):32>> | [[<<(byte_size(Value)):32>>, Value] || Value <- Values]].

%% Whether each value fits its type. A number that is too large would become another one.
-spec is_sound(request()) -> boolean().
is_sound(Request) -> lists:all(fun({_, Type, Value}) -> Value =:= undefined orelse fits(Type, Value) end, Request).

fits(bool, Value) -> is_boolean(Value);
fits(i16, Value) -> is_signed(16, Value);
fits(i32, Value) -> is_signed(32, Value);
fits(i64, Value) -> is_signed(64, Value);
fits(binary, Value) -> is_binary(Value);
fits(text, Value) -> is_binary(Value) andalso unicode:characters_to_binary(Value) =:= Value;
fits(texts, Values) -> lists:all(fun(Value) -> fits(text, Value) end, Values).

is_signed(Bits, Value) -> is_integer(Value) andalso Value >= -(1 bsl (Bits - 1)) andalso Value < 1 bsl (Bits - 1).

%% The message in a frame: field 0 is the result, field 1 the error.
-spec reply(Frame :: binary(), Method :: binary(), Number :: non_neg_integer()) ->
    {ok, fields()} | {refused, Message :: binary()} | {malformed, Why :: binary()}.
reply(<<?VERSION:16, _, Kind, Size:32/signed, Name:Size/binary, Number:32, Bytes/binary>>, Method, Number) ->
    try fields(Bytes, {0, counters:new(1, [])}, #{}) of
        {Fields, <<>>} when Kind =:= ?EXCEPTION -> {refused, binary(1, Fields)};
        {Fields, <<>>} when Name =:= Method -> {ok, Fields};
        {_, <<>>} -> {malformed, <<"a reply to another method">>};
        {_, _} -> {malformed, <<"a reply that doesn't end with its frame">>}
    catch
        throw:{malformed, _} = Malformed -> Malformed
    end;
reply(<<?VERSION:16, _, _, Size:32/signed, _:Size/binary, _:32, _/binary>>, _, _) ->
    {malformed, <<"a reply to another request">>};
reply(_, _, _) ->
    {malformed, <<"not a reply of Thrift's">>}.

fields(<<?STOP, Rest/binary>>, _, Fields) ->
    {Fields, Rest};
fields(<<Type, Id:16/signed, Bytes/binary>>, {Depth, Counter} = At, Fields) ->
    {Value, Rest} = value(Type, Bytes, {Depth + 1, Counter}),
    fields(Rest, At, Fields#{Id => Value});
fields(_, _, _) ->
    throw({malformed, <<"a reply with a wrong length">>}).

count(More, {_, Counter}) ->
    counters:add(Counter, 1, More),
    counters:get(Counter, 1) =< ?MAX_VALUES orelse throw({malformed, <<"a reply with too many values">>}).

%% The patterns check each length before its bytes are taken.
value(_, _, {Depth, _}) when Depth > ?MAX_DEPTH -> throw({malformed, <<"a reply that is too deep">>});
value(?BOOL, <<Value:8/signed, Rest/binary>>, _) -> {Value, Rest};
value(?BYTE, <<Value:8/signed, Rest/binary>>, _) -> {Value, Rest};
value(?I16, <<Value:16/signed, Rest/binary>>, _) -> {Value, Rest};
value(?I32, <<Value:32/signed, Rest/binary>>, _) -> {Value, Rest};
value(?I64, <<Value:64/signed, Rest/binary>>, _) -> {Value, Rest};
value(?DOUBLE, <<Value:64/signed, Rest/binary>>, _) -> {Value, Rest};
value(?BINARY, <<Size:32/signed, Value:Size/binary, Rest/binary>>, _) -> {Value, Rest};
value(?STRUCT, Bytes, At) ->
    count(1, At),
    fields(Bytes, At, #{});
value(?LIST, <<Type, Count:32, Bytes/binary>>, At) -> items([Type], Count, Bytes, At);
value(?SET, <<Type, Count:32, Bytes/binary>>, At) -> items([Type], Count, Bytes, At);
%% No message has maps: those of a newer gateway are read over.
value(?MAP, <<Key, Value, Count:32, Bytes/binary>>, At) -> items([Key, Value], Count, Bytes, At);
value(_, _, _) -> throw({malformed, <<"a reply with a field of an unknown type, or a wrong length">>}).

%% An item takes a byte at least.
items(Types, Count, Bytes, At) when Count * length(Types) =< byte_size(Bytes) ->
    count(Count * length(Types), At),
    items(Types, Count, Bytes, At, []);
items(_, _, _, _) ->
    throw({malformed, <<"a reply with a wrong length">>}).

items(_, 0, Bytes, _, Items) ->
    {lists:reverse(Items), Bytes};
items(Types, Count, Bytes, {Depth, Counter} = At, Items) ->
    Take = fun(Type, {Taken, Left}) ->
        {Value, Rest} = value(Type, Left, {Depth + 1, Counter}),
        {[Value | Taken], Rest}
    end,
    {Taken, Rest} = lists:foldl(Take, {Items, Bytes}, Types),
    items(Types, Count - 1, Rest, At, Taken).

%% A field of another type than expected counts as absent, as in Thrift's own decoders.
-spec integer(integer(), fields()) -> integer().
integer(Id, Fields) ->
    case Fields of
        #{Id := Value} when is_integer(Value) -> Value;
        #{} -> 0
    end.

-spec binary(integer(), fields()) -> binary().
binary(Id, Fields) ->
    case Fields of
        #{Id := Value} when is_binary(Value) -> Value;
        #{} -> <<>>
    end.

-spec struct(integer(), fields()) -> fields().
struct(Id, Fields) ->
    case Fields of
        #{Id := Value} when is_map(Value) -> Value;
        #{} -> #{}
    end.

-spec list(integer(), fields()) -> [value()].
list(Id, Fields) ->
    case Fields of
        #{Id := Value} when is_list(Value) -> Value;
        #{} -> []
    end.
