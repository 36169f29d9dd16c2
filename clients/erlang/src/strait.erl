%% @doc Files of any store behind a Strait gateway.
%%
%% Paths are absolute within the store: binaries, or strings as Erlang's. Errors are maps with a kind and a path
%% ({@link strait_error}). A client serves any number of processes.
-module(strait).
-export([connect/1, connect/2, disconnect/1, session/1]).
-export([stat/2, exists/2, list/2, list/3, fold/5, locate/2, locate/4, checksum/2, status/1]).
-export([make_dirs/2, make_dirs/3, rename/3, rename/4, remove/2, remove/3, set_attributes/3, truncate/3, concat/3]).
-export([open/2, open/3, read/2, read_line/1, pread/3, position/2, write/2, flush/1, sync/1, close/1, abandon/1]).
-export([read_file/2, write_file/3, get/3, get/4, put/3, put/4]).
-export_type([client/0, file/0, path/0, options/0, tls/0, info/0, store/0, attributes/0, block/0]).

-type client() :: pid().
%% Also a device for the modules `file' and `io'.
-type file() :: pid().
-type path() :: unicode:chardata().
-type result() :: ok | {error, strait_error:t()}.
-type result(Value) :: {ok, Value} | {error, strait_error:t()}.

%% True trusts the system's authorities; options of `ssl' can name others, or a client's certificate.
-type tls() :: boolean() | [ssl:tls_client_option()].

-type options() :: #{
    %% A store of the gateway, if the URI names none.
    store => unicode:chardata(),
    user => unicode:chardata(),
    password => unicode:chardata(),
    %% Of an earlier session, in place of user and password.
    token => unicode:chardata(),
    tls => tls(),
    %% In milliseconds (120,000): bounds each request as a whole, with connecting, all attempts and the complete reply.
    timeout => pos_integer()
}.

-type store() :: #{name := binary(), uri := binary(), capabilities := [binary()]}.

%% Lengths are in bytes, times in milliseconds since 1970-01-01 UTC, permission bits 8#7777 at most.
-type info() :: #{
    path := binary(),
    name := binary(),
    type := file | directory,
    length := non_neg_integer(),
    block_size := non_neg_integer(),
    replication := non_neg_integer(),
    modified_ms := integer(),
    accessed_ms := integer(),
    permission := non_neg_integer(),
    owner := binary(),
    group := binary(),
    is_link := boolean()
}.

-type attributes() :: #{
    permission => non_neg_integer(),
    owner => unicode:chardata(),
    group => unicode:chardata(),
    modified_ms => integer(),
    accessed_ms => integer(),
    replication => pos_integer()
}.

-type block() :: #{offset := non_neg_integer(), length := non_neg_integer(), hosts := [binary()]}.

-define(TIMEOUT_MS, 120_000).

%% Sessions

%% @equiv connect(Address, #{})
-spec connect(unicode:chardata()) -> result(client()).
connect(Address) -> connect(Address, #{}).

%% @doc Opens a session. The address is `strait://HOST:PORT/' or `HOST:PORT'; `/@STORE' after it names a store. The
%% client is linked to the calling process, and ends with it; so a supervisor can start it.
-spec connect(unicode:chardata(), options()) -> result(client()).
connect(Address, Options) ->
    case strait_uri:parse_address(Address) of
        {ok, #{store := Named} = Uri} ->
            Store = text(store, Options),
            case Named =:= undefined orelse Store =:= undefined orelse Named =:= Store of
                true ->
                    strait_session:start_link(Uri, #{
                        store => hd([One || One <- [Named, Store], One =/= undefined] ++ [undefined]),
                        user => text(user, Options),
                        password => text(password, Options),
                        token => text(token, Options),
                        tls => maps:get(tls, Options, false),
                        timeout => maps:get(timeout, Options, ?TIMEOUT_MS)
                    });
                false ->
                    {error, strait_error:new(invalid_argument, ["two stores are named: ", Named, " and ", Store])}
            end;
        Error ->
            Error
    end.

%% @doc Ends the session; close its files first.
-spec disconnect(client()) -> ok.
disconnect(Client) ->
    strait_call:tidy(Client, <<"closeSession">>, []),
    strait_session:stop(Client).

%% @doc The session's user and store. The token stands for the login until it expires: keep it secret.
-spec session(client()) -> result(#{user := binary(), store := store(), token := binary() | undefined}).
session(Client) ->
    mapped(fun(Settings) -> maps:with([user, store, token], Settings) end, strait_session:settings(Client)).

%% Names

-spec stat(client(), path()) -> result(info()).
stat(Client, Path) ->
    case ask(Client, <<"getFileInfo">>, Path, []) of
        {ok, #{1 := Info}} when is_map(Info) -> {ok, info(Info)};
        {ok, _} ->
            Message = "stat: the gateway's reply has no file status (a defect of the gateway)",
            {error, strait_error:new(internal, Message, bytes(Path))};
        Error -> Error
    end.

-spec exists(client(), path()) -> result(boolean()).
exists(Client, Path) ->
    case stat(Client, Path) of
        {ok, _} -> {ok, true};
        {error, #{kind := Kind}} when Kind =:= not_found; Kind =:= not_a_directory -> {ok, false};
        Error -> Error
    end.

%% @equiv list(Client, Path, #{})
-spec list(client(), path()) -> result([info()]).
list(Client, Path) -> list(Client, Path, #{}).

%% @doc All entries of a directory, in the store's order.
-spec list(client(), path(), #{page_entries => pos_integer()}) -> result([info()]).
list(Client, Path, Options) ->
    mapped(fun lists:reverse/1, fold(Client, Path, Options, fun(Info, Infos) -> [Info | Infos] end, [])).

%% @doc Calls the function for each entry of a directory. The entries come page by page, so a directory can be larger
%% than the memory.
-spec fold(client(), path(), #{page_entries => pos_integer()}, fun((info(), Acc) -> Acc), Acc) -> result(Acc).
fold(Client, Path, Options, Function, Acc) ->
    Entries = {4, i32, maps:get(page_entries, Options, undefined)},
    First = ask(Client, <<"listDirectory">>, Path, [Entries]),
    Session = incarnation(Client),
    Later = fun(Cursor) -> later_page(Client, bytes(Path), [{3, i64, Cursor}, Entries], Session) end,
    pages(Client, bytes(Path), Later, Function, Acc, First).

pages(Client, Path, Later, Function, Acc, {ok, Page}) ->
    Next =
        case Page of
            #{2 := Number} when is_integer(Number) -> Number;
            #{} -> undefined
        end,
    Infos = [info(Entry) || Entry <- strait_wire:list(1, Page), is_map(Entry)],
    Leave = fun() -> Next =/= undefined andalso strait_call:tidy(Client, <<"closeFile">>, [{4, i64, Next}]) end,
    case defect(Infos, Next, Path) of
        none ->
            try lists:foldl(Function, Acc, Infos) of
                Folded when Next =:= undefined -> {ok, Folded};
                Folded -> pages(Client, Path, Later, Function, Folded, Later(Next))
            catch
                Class:Reason:Stack ->
                    Leave(),
                    erlang:raise(Class, Reason, Stack)
            end;
        Why ->
            Leave(),
            {error, strait_error:new(internal, [<<"list ">>, Path, <<": the gateway ">>, Why], Path)}
    end;
pages(_, _, _, _, _, Error) ->
    Error.

%% Entries are the directory's own: programs join their names to paths of their own.
defect([], Next, _) when Next =/= undefined ->
    <<"sent an empty page that isn't the last (a defect of the gateway)">>;
defect(Infos, _, Path) ->
    Directory = [[$/, Name] || Name <- binary:split(Path, <<"/">>, [global]), Name =/= <<>>],
    IsChild = fun(#{path := Entry, name := Name}) ->
        Entry =:= iolist_to_binary([Directory, $/, Name]) andalso
            not lists:member(Name, [<<>>, <<".">>, <<"..">>]) andalso
            binary:match(Name, <<0>>) =:= nomatch
    end,
    case lists:dropwhile(IsChild, Infos) of
        [] -> none;
        [#{path := Stray} | _] -> [<<"named ">>, Stray, <<", which isn't in this directory">>]
    end.

%% The cursor moves with each answer, so a page after the first is asked for once. It ends with its session.
later_page(Client, Path, Fields, Session) ->
    Answer = strait_call:once(Client, <<"listDirectory">>, [{2, text, Path} | Fields], Path),
    Refusal =
        case Answer of
            {error, #{kind := Kind}} -> Kind;
            {ok, _} -> none
        end,
    case Refusal =:= unauthenticated orelse incarnation(Client) =/= Session of
        true -> {error, strait_error:new(unavailable, "its session ended: list the directory again", Path, true)};
        false -> Answer
    end.

incarnation(Client) ->
    case strait_session:settings(Client) of
        {ok, #{incarnation := Incarnation}} -> Incarnation;
        {error, _} -> undefined
    end.

%% @doc The blocks of a whole file.
-spec locate(client(), path()) -> result([block()]).
locate(Client, Path) -> locate(Client, Path, 0, undefined).

%% @doc The blocks that hold a range of a file; without a length, to its end.
-spec locate(client(), path(), integer(), integer() | undefined) -> result([block()]).
locate(Client, Path, Offset, Length) ->
    Blocks = fun(Reply) -> [block(Block) || Block <- strait_wire:list(1, Reply), is_map(Block)] end,
    mapped(Blocks, ask(Client, <<"getBlockLocations">>, Path, [{3, i64, Offset}, {4, i64, Length}])).

block(Block) ->
    Hosts = [Host || Host <- strait_wire:list(3, Block), is_binary(Host)],
    #{offset => strait_wire:integer(1, Block), length => strait_wire:integer(2, Block), hosts => Hosts}.

%% @doc The store's own checksum of a file; comparable under the same algorithm.
-spec checksum(client(), path()) -> result(#{algorithm := binary(), value := binary()}).
checksum(Client, Path) ->
    Sum = fun(Reply) -> #{algorithm => strait_wire:binary(1, Reply), value => strait_wire:binary(2, Reply)} end,
    mapped(Sum, ask(Client, <<"getChecksum">>, Path, [])).

%% @doc Capacity of the whole store, in bytes.
-spec status(client()) -> result(#{capacity := integer(), used := integer(), remaining := integer()}).
status(Client) ->
    Ids = #{capacity => 2, used => 3, remaining => 4},
    Bytes = fun(Reply) -> maps:map(fun(_, Id) -> strait_wire:integer(Id, Reply) end, Ids) end,
    mapped(Bytes, strait_call:query(Client, <<"getStoreStatus">>, [], undefined)).

%% @equiv make_dirs(Client, Path, #{})
-spec make_dirs(client(), path()) -> result().
make_dirs(Client, Path) -> make_dirs(Client, Path, #{}).

%% @doc Makes a directory and its missing parents; an existing one is success.
-spec make_dirs(client(), path(), #{permission => non_neg_integer()}) -> result().
make_dirs(Client, Path, Options) ->
    change(Client, <<"makeDirectories">>, Path, [{5, i32, maps:get(permission, Options, undefined)}]).

%% @equiv rename(Client, Source, Target, #{})
-spec rename(client(), path(), path()) -> result().
rename(Client, Source, Target) -> rename(Client, Source, Target, #{}).

%% @doc Renames a file or directory; with `replace', a file at the target is replaced.
-spec rename(client(), path(), path(), #{replace => boolean()}) -> result().
rename(Client, Source, Target, Options) ->
    Replace = {6, bool, maps:get(replace, Options, false)},
    change(Client, <<"renamePath">>, Source, [{5, text, bytes(Target)}, Replace]).

%% @equiv remove(Client, Path, #{})
-spec remove(client(), path()) -> result().
remove(Client, Path) -> remove(Client, Path, #{}).

%% @doc Removes a file or an empty directory; with `recursive', all that is in it too.
-spec remove(client(), path(), #{recursive => boolean()}) -> result().
remove(Client, Path, Options) ->
    change(Client, <<"removePath">>, Path, [{5, bool, maps:get(recursive, Options, false)}]).

%% @doc Sets the attributes that are given.
-spec set_attributes(client(), path(), attributes()) -> result().
set_attributes(Client, Path, Attributes) ->
    Get = fun(Key) -> maps:get(Key, Attributes, undefined) end,
    change(Client, <<"setAttributes">>, Path, [
        {5, i32, Get(permission)},
        {6, text, text(owner, Attributes)},
        {7, text, text(group, Attributes)},
        {8, i64, Get(modified_ms)},
        {9, i64, Get(accessed_ms)},
        {10, i16, Get(replication)}
    ]).

%% @doc Cuts a closed file to this many bytes.
-spec truncate(client(), path(), integer()) -> result().
truncate(Client, Path, Length) -> change(Client, <<"truncateFile">>, Path, [{5, i64, Length}]).

%% @doc Moves the sources' bytes, in order, to the end of a closed file, in one step.
-spec concat(client(), path(), [path()]) -> result().
concat(Client, Path, Sources) ->
    change(Client, <<"concatFiles">>, Path, [{5, texts, [bytes(Source) || Source <- Sources]}]).

%% Files

%% @equiv open(Client, Path, [read])
-spec open(client(), path()) -> result(file()).
open(Client, Path) -> open(Client, Path, [read]).

%% @doc Opens a file, for the calling process. `read' reads. `write' makes the file and its missing parents, or replaces
%% it; with `exclusive', an existing file is an error. `append' writes at the end of an existing file.
-spec open(client(), path(), [Mode]) -> result(file()) when
    Mode ::
        read | write | append | exclusive
        | {permission, non_neg_integer()} | {replication, pos_integer()} | {block_size, pos_integer()}.
open(Client, Path, Modes) ->
    Is = fun(Mode) -> proplists:get_bool(Mode, Modes) end,
    case {Is(read), Is(write) orelse Is(exclusive), Is(append)} of
        {true, false, false} ->
            started(strait_reader, strait_reader:open(Client, bytes(Path)));
        {false, true, false} ->
            Options = [
                {5, bool, not Is(exclusive)},
                {6, i32, proplists:get_value(permission, Modes)},
                {7, i16, proplists:get_value(replication, Modes)},
                {8, i64, proplists:get_value(block_size, Modes)}
            ],
            started(strait_writer, strait_writer:create(Client, bytes(Path), Options));
        {false, false, true} ->
            started(strait_writer, strait_writer:append(Client, bytes(Path)));
        _ ->
            {error, strait_error:new(invalid_argument, "the mode is one of read, write and append", bytes(Path))}
    end.

started(Kind, {ok, State}) -> strait_file:start_link(Kind, State);
started(_, Error) -> Error.

%% @doc The next bytes: fewer at the end of the file, and eof behind it.
-spec read(file(), non_neg_integer()) -> {ok, binary()} | eof | {error, strait_error:t()}.
read(File, Count) -> strait_file:call(File, {read, Count}).

%% @doc The next bytes to the end of the line, with its newline if it has one.
-spec read_line(file()) -> {ok, binary()} | eof | {error, strait_error:t()}.
read_line(File) -> strait_file:call(File, read_line).

%% @doc The bytes from an offset. The position stays.
-spec pread(file(), non_neg_integer(), non_neg_integer()) -> {ok, binary()} | eof | {error, strait_error:t()}.
pread(File, Offset, Count) -> strait_file:call(File, {pread, Offset, Count}).

%% @doc Moves a reader, and tells the new position. `{position, cur}' of a writer is the offset at which the next byte goes.
-spec position(file(), file:location()) -> result(non_neg_integer()).
position(File, Location) -> strait_file:call(File, {position, Location}).

%% @doc Writes at the end. One of up to 1 MiB that fails has taken nothing; `position(File, cur)' tells what a larger
%% one has taken.
-spec write(file(), iodata()) -> result().
write(File, Data) -> strait_file:call(File, {write, iolist_to_binary(Data)}).

%% @doc Makes the written bytes visible to readers who open the file afterwards. In object stores it promises nothing.
-spec flush(file()) -> result().
flush(File) -> strait_file:call(File, flush).

%% @doc Puts the written bytes on stable storage. In object stores it promises nothing.
-spec sync(file()) -> result().
sync(File) -> strait_file:call(File, sync).

%% @doc Puts all bytes on stable storage (except in HDFS), and ends the file. After `no_space' and `unavailable', a
%% file of Kadoop is still open, and may be closed again.
-spec close(file()) -> result().
close(File) -> strait_file:call(File, close).

%% @doc Ends a file. Flushed bytes stay; other bytes may be lost.
-spec abandon(file()) -> ok.
abandon(File) ->
    _ = strait_file:call(File, abandon),
    ok.

%% Whole files

-spec read_file(client(), path()) -> result(binary()).
read_file(Client, Path) -> strait_copy:read_file(Client, bytes(Path)).

%% @doc Makes or replaces a file.
-spec write_file(client(), path(), iodata()) -> result().
write_file(Client, Path, Data) -> strait_copy:write_file(Client, bytes(Path), iolist_to_binary(Data)).

%% @equiv get(Client, Source, Target, #{})
-spec get(client(), path(), file:name_all()) -> result().
get(Client, Source, Target) -> get(Client, Source, Target, #{}).

%% @doc Copies a remote file to a local one, which appears only when it is complete.
-spec get(client(), path(), file:name_all(), #{replace => boolean()}) -> result().
get(Client, Source, Target, Options) ->
    strait_copy:get(Client, bytes(Source), Target, maps:get(replace, Options, false)).

%% @equiv put(Client, Source, Target, #{})
-spec put(client(), file:name_all(), path()) -> result().
put(Client, Source, Target) -> put(Client, Source, Target, #{}).

%% @doc Copies a local file to a remote one, which appears, or is replaced, only when it is complete. In a directory the
%% file gets its own name.
-spec put(client(), file:name_all(), path(), #{replace => boolean()}) -> result().
put(Client, Source, Target, Options) ->
    strait_copy:put(Client, Source, bytes(Target), maps:get(replace, Options, false)).

mapped(Function, {ok, Value}) -> {ok, Function(Value)};
mapped(_, Error) -> Error.

ask(Client, Method, Path, Request) ->
    strait_call:query(Client, Method, [{2, text, bytes(Path)} | Request], bytes(Path)).

change(Client, Method, Path, Request) ->
    case strait_call:change(Client, Method, [{4, text, bytes(Path)} | Request], bytes(Path)) of
        {ok, _} -> ok;
        Error -> Error
    end.

bytes(Path) when is_binary(Path) -> Path;
bytes(Path) ->
    case unicode:characters_to_binary(Path) of
        <<Bytes/binary>> -> Bytes;
        _ -> error(badarg)
    end.

text(Key, Options) ->
    case Options of
        #{Key := Value} when Value =/= undefined -> bytes(Value);
        #{} -> undefined
    end.

info(Info) ->
    Path = strait_wire:binary(1, Info),
    #{
        path => Path,
        name => lists:last(binary:split(Path, <<"/">>, [global])),
        type => type(strait_wire:integer(2, Info)),
        length => strait_wire:integer(3, Info),
        block_size => strait_wire:integer(4, Info),
        replication => strait_wire:integer(5, Info),
        modified_ms => strait_wire:integer(6, Info),
        accessed_ms => strait_wire:integer(7, Info),
        permission => strait_wire:integer(8, Info),
        owner => strait_wire:binary(9, Info),
        group => strait_wire:binary(10, Info),
        is_link => strait_wire:integer(11, Info) =/= 0
    }.

type(2) -> directory;
type(_) -> file.
