%% @doc The parts of `strait://HOST:PORT/@STORE/PATH'. Nothing is decoded.
-module(strait_uri).
-export([parse/1, parse_address/1, address/1]).
-export_type([t/0]).

-type t() :: #{
    host := binary(),
    port := inet:port_number(),
    %% The gateway's default store.
    store := binary() | undefined,
    path := binary()
}.

-define(SCHEME, "strait://").
-define(DEFAULT_PORT, 9090).
%% As POSIX's NAME_MAX.
-define(MAX_NAME_BYTES, 255).

%% @doc A first component `@NAME' names a store. One that begins with `@@' is a directory with one `@' less.
-spec parse(unicode:chardata()) -> {ok, t()} | {error, strait_error:t()}.
parse(Text) ->
    try
        {ok, parts(unicode:characters_to_binary(Text))}
    catch
        throw:Why ->
            Message = ["not the address of a gateway, strait://HOST:PORT/@STORE: ", Why],
            {error, strait_error:new(invalid_argument, Message)}
    end.

%% @private A gateway or one of its stores; the scheme may be left out.
-spec parse_address(unicode:chardata()) -> {ok, t()} | {error, strait_error:t()}.
parse_address(Text) ->
    Whole =
        case string:find(Text, "://") of
            nomatch -> [?SCHEME, Text];
            _ -> Text
        end,
    case parse(Whole) of
        {ok, #{path := <<"/">>}} = Address -> Address;
        {ok, _} -> {error, strait_error:new(invalid_argument, "the address of a gateway or of its store has no path")};
        Error -> Error
    end.

%% @private HOST:PORT, for messages.
-spec address(t()) -> binary().
address(#{host := Host, port := Port}) ->
    Name =
        case binary:match(Host, <<":">>) of
            nomatch -> Host;
            _ -> ["[", Host, "]"]
        end,
    iolist_to_binary([Name, ":", integer_to_binary(Port)]).

parts(<<?SCHEME, Rest/binary>>) ->
    [Authority | Components] = binary:split(Rest, <<"/">>, [global]),
    {Host, Port} = authority(Authority),
    {Store, Names} = store([Name || Name <- Components, Name =/= <<>>]),
    lists:foreach(fun check/1, [Store || Store =/= undefined] ++ Names),
    #{host => Host, port => Port, store => Store, path => iolist_to_binary(["/" | lists:join("/", Names)])};
parts(<<Text/binary>>) ->
    %% With an @, it may hold a password.
    case binary:match(Text, <<"@">>) of
        nomatch -> throw([Text, " doesn't begin with " ?SCHEME]);
        _ -> throw("it doesn't begin with " ?SCHEME)
    end;
parts(_) ->
    throw("it isn't UTF-8").

authority(Authority) ->
    binary:match(Authority, <<"@">>) =:= nomatch orelse
        throw("an address names no user; the options take user and password"),
    Pattern = "^(?|\\[([^\\]]+)\\]|([^\\s:?#\\[\\]]+))(?::([0-9]{0,5}))?$",
    case re:run(Authority, Pattern, [dollar_endonly, {capture, all_but_first, binary}]) of
        {match, [Host]} -> {Host, ?DEFAULT_PORT};
        {match, [Host, <<>>]} -> {Host, ?DEFAULT_PORT};
        {match, [Host, Digits]} -> {Host, port(binary_to_integer(Digits))};
        nomatch -> throw(["\"", Authority, "\" is no HOST:PORT"])
    end.

port(Port) when Port >= 1, Port =< 65535 -> Port;
port(_) -> throw("a port is 1 to 65535").

store([<<"@@", Name/binary>> | Names]) -> {undefined, [<<"@", Name/binary>> | Names]};
store([<<"@">> | _]) -> throw("a store's name follows the @, as in /@lab; a directory called @ is /@@");
store([<<"@", Store/binary>> | Names]) -> {Store, Names};
store(Names) -> {undefined, Names}.

check(Name) when Name =:= <<".">>; Name =:= <<"..">> -> throw("a name is . or ..");
check(Name) when byte_size(Name) > ?MAX_NAME_BYTES -> throw("a name is longer than 255 bytes");
check(Name) -> binary:match(Name, <<0>>) =:= nomatch orelse throw("a name holds a NUL byte").
