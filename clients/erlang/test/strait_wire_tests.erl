-module(strait_wire_tests).
-include_lib("eunit/include/eunit.hrl").

-define(STOP, 0).

reply(Kind, Fields) -> reply(Kind, <<"stat">>, 7, Fields).

reply(Kind, Name, Number, Fields) ->
    <<16#8001:16, 0, Kind, (byte_size(Name)):32, Name/binary, Number:32, Fields/binary>>.

decode(Frame) -> strait_wire:reply(Frame, <<"stat">>, 7).

result(Fields) -> reply(2, <<12, 0:16, Fields/binary, ?STOP, ?STOP>>).

a_request_comes_back_test() ->
    Request = [
        {1, text, <<"é"/utf8>>},
        {2, binary, <<0, 255>>},
        {3, i64, -1},
        {4, i32, 5},
        {5, i16, -6},
        {6, bool, true},
        {7, i32, undefined},
        {8, texts, [<<"x">>, <<>>]}
    ],
    <<Length:32, Frame/binary>> = iolist_to_binary(strait_wire:request(<<"stat">>, 7, Request)),
    ?assertEqual(Length, byte_size(Frame)),
    Expected = #{1 => <<"é"/utf8>>, 2 => <<0, 255>>, 3 => -1, 4 => 5, 5 => -6, 6 => 1, 8 => [<<"x">>, <<>>]},
    ?assertEqual({ok, #{1 => Expected}}, decode(Frame)).

values_fit_their_types_test() ->
    Sound = [{2, text, <<"é"/utf8>>}, {3, i64, -(1 bsl 63)}, {4, i16, 16#7fff}, {5, bool, false}, {6, i32, undefined}],
    ?assert(strait_wire:is_sound(Sound)),
    Numbers = [{3, i64, 1 bsl 63}, {4, i16, 16#8000}, {6, i32, text}],
    Others = [{2, text, <<255>>}, {5, bool, 1}, {7, texts, [<<255>>]} | Numbers],
    [?assertNot(strait_wire:is_sound([Other | Sound])) || Other <- Others].

every_part_of_a_reply_is_malformed_test() ->
    Whole = result(<<11, 1:16, 3:32, "abc", 10, 2:16, 9:64, 15, 3:16, 11, 1:32, 1:32, "z">>),
    ?assertMatch({ok, _}, decode(Whole)),
    Parts = [binary:part(Whole, 0, Length) || Length <- lists:seq(0, byte_size(Whole) - 1)],
    [?assertMatch({malformed, _}, decode(Part)) || Part <- Parts],
    ?assertMatch({malformed, _}, decode(<<Whole/binary, 0>>)).

claimed_lengths_are_checked_test_() ->
    [
        ?_assertMatch({malformed, _}, decode(result(Field)))
     || Length <- [16#7fffffff, 16#80000000, 16#ffffffff, 100],
        Field <- [<<11, 1:16, Length:32>>, <<15, 1:16, 2, Length:32>>, <<13, 1:16, 2, 2, Length:32>>]
    ].

nesting_is_limited_test() ->
    Deep = fun(Levels) ->
        result(<<(binary:copy(<<12, 1:16>>, Levels))/binary, (binary:copy(<<?STOP>>, Levels))/binary>>)
    end,
    ?assertMatch({ok, _}, decode(Deep(10))),
    ?assertMatch({malformed, _}, decode(Deep(100_000))),
    Lists = result(<<15, 1:16, (binary:copy(<<15, 1:32>>, 100_000))/binary>>),
    ?assertMatch({malformed, _}, decode(Lists)).

structs_and_items_are_counted_test() ->
    List = fun(Type, Count, Item) -> result(<<15, 1:16, Type, Count:32, (binary:copy(<<Item>>, Count))/binary>>) end,
    {ok, #{0 := Fields}} = decode(List(3, 1 bsl 17, 1)),
    ?assertEqual(1 bsl 17, length(strait_wire:list(1, Fields))),
    TooMany = {malformed, <<"a reply with too many values">>},
    ?assertEqual(TooMany, decode(List(3, 1 bsl 18, 1))),
    ?assertEqual(TooMany, decode(List(12, 1 bsl 17, ?STOP))).

maps_of_a_newer_gateway_are_read_over_test() ->
    Frame = result(<<13, 9:16, 11, 8, 1:32, 1:32, "k", 5:32, 8, 4:16, 42:32>>),
    {ok, #{0 := Fields}} = decode(Frame),
    ?assertEqual(42, strait_wire:integer(4, Fields)).

another_type_counts_as_absent_test() ->
    Fields = #{1 => <<"text">>, 2 => 5},
    ?assertEqual(0, strait_wire:integer(1, Fields)),
    ?assertEqual(<<>>, strait_wire:binary(2, Fields)),
    ?assertEqual(#{}, strait_wire:struct(2, Fields)),
    ?assertEqual([], strait_wire:list(2, Fields)).

other_replies_are_malformed_test() ->
    ?assertMatch({malformed, _}, decode(reply(2, <<"stat">>, 8, <<?STOP>>))),
    ?assertMatch({malformed, _}, decode(reply(2, <<"list">>, 7, <<?STOP>>))),
    ?assertMatch({malformed, _}, decode(<<"HTTP/1.1 400 Bad Request\r\n\r\n">>)),
    ?assertEqual({refused, <<"no">>}, decode(reply(3, <<11, 1:16, 2:32, "no", ?STOP>>))).

bytes_at_random_never_end_the_caller_test() ->
    _ = rand:seed(exsss, 1),
    Whole = result(<<11, 1:16, 3:32, "abc", 15, 3:16, 12, 1:32, 10, 2:16, 9:64, ?STOP>>),
    [
        begin
            At = rand:uniform(byte_size(Whole)) - 1,
            <<Before:At/binary, _, After/binary>> = Whole,
            decode(<<Before/binary, (rand:uniform(256) - 1), After/binary>>)
        end
     || _ <- lists:seq(1, 20_000)
    ].
