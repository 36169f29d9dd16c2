%% @doc Errors by kind. The kinds are the same in every client language.
-module(strait_error).
-export([new/2, new/3, new/4, of_reply/2, of_posix/2, posix/1, format/1]).
-export_type([t/0, kind/0]).

-type kind() ::
    not_found | already_exists | not_a_directory | is_a_directory | not_empty | permission_denied | unauthenticated
    | invalid_argument | unsupported | busy | no_space | timed_out | unavailable | corrupt | outcome_unknown | internal.

%% `path' is the remote path (of a copy also the local one), or undefined if the error has none. `message' is UTF-8, and
%% names the path. `retry_safe': repeating the same request can help, and can do no harm.
-type t() :: #{kind := kind(), path := binary() | undefined, message := binary(), retry_safe := boolean()}.

%% Kinds by their codes in idl/dfs.thrift, each with the error of POSIX that is closest.
-define(KINDS, [
    {1, not_found, enoent},
    {2, already_exists, eexist},
    {3, not_a_directory, enotdir},
    {4, is_a_directory, eisdir},
    {5, not_empty, enotempty},
    {6, permission_denied, eacces},
    {7, unauthenticated, eperm},
    {8, invalid_argument, einval},
    {9, unsupported, enotsup},
    {10, busy, ebusy},
    {11, no_space, enospc},
    {12, timed_out, etimedout},
    {13, unavailable, ehostdown},
    {14, corrupt, eio},
    {15, outcome_unknown, eio},
    {16, internal, eio}
]).

%% @private
-spec new(kind(), iodata()) -> t().
new(Kind, Message) -> new(Kind, Message, undefined).

%% @private
-spec new(kind(), iodata(), binary() | undefined) -> t().
new(Kind, Message, Path) -> new(Kind, Message, Path, false).

%% @private
-spec new(kind(), iodata(), binary() | undefined, boolean()) -> t().
new(Kind, Message, Path, RetrySafe) ->
    #{kind => Kind, path => Path, message => named(iolist_to_binary(Message), Path), retry_safe => RetrySafe}.

named(Message, Path) when Path =:= undefined; Path =:= <<>> -> Message;
named(Message, Path) ->
    case binary:match(Message, Path) of
        nomatch -> <<Path/binary, ": ", Message/binary>>;
        _ -> Message
    end.

%% @private A gateway's DfsError. If it names no path, the request's is meant.
-spec of_reply(strait_wire:fields(), binary() | undefined) -> t().
of_reply(Fields, RequestPath) ->
    Kind =
        case lists:keyfind(strait_wire:integer(1, Fields), 1, ?KINDS) of
            {_, Known, _} -> Known;
            false -> internal
        end,
    Path =
        case strait_wire:binary(4, Fields) of
            <<>> -> RequestPath;
            Named -> Named
        end,
    new(Kind, strait_wire:binary(3, Fields), Path, strait_wire:integer(5, Fields) =/= 0).

%% @private An error of a local file.
-spec of_posix(atom(), file:name_all()) -> t().
of_posix(Posix, Name) -> new(local_kind(Posix), file:format_error(Posix), bytes(Name)).

local_kind(eperm) -> permission_denied;
local_kind(edquot) -> no_space;
local_kind(eio) -> internal;
local_kind(Posix) ->
    case lists:keyfind(Posix, 3, ?KINDS) of
        {_, Known, _} -> Known;
        false -> internal
    end.

bytes(Name) when is_binary(Name) -> Name;
bytes(Name) -> unicode:characters_to_binary(Name).

%% @doc The atom that the module `file' has for the kind, such as `enoent' for `not_found'.
-spec posix(t() | kind()) -> file:posix() | atom().
posix(#{kind := Kind}) -> posix(Kind);
posix(Kind) ->
    {_, _, Posix} = lists:keyfind(Kind, 2, ?KINDS),
    Posix.

%% @doc Formats the error as one line.
-spec format(t()) -> string().
format(#{kind := Kind, message := Message}) ->
    lists:flatten(io_lib:format("~ts (~s)", [Message, Kind])).
