%% @private An open file to read: handle, position, and the bytes read ahead. One request is in flight at a time.
-module(strait_reader).
-export([open/2, handle/2, close/1, drop/1]).

%% Or what the gateway allows for one request, if that is less.
-define(READ_AHEAD_BYTES, (1 bsl 20)).

-record(reader, {
    client :: pid(),
    path :: binary(),
    handle :: integer(),
    incarnation :: integer(),
    length :: non_neg_integer(),
    identity :: binary(),
    position = 0 :: non_neg_integer(),
    %% Small reads are served from one request's bytes.
    ahead = <<>> :: binary(),
    ahead_at = 0 :: non_neg_integer()
}).

-spec open(pid(), binary()) -> {ok, #reader{}} | {error, strait_error:t()}.
open(Client, Path) ->
    case strait_call:query(Client, <<"openFile">>, [{2, text, Path}], Path) of
        {ok, Reply} ->
            {ok, #reader{
                client = Client,
                path = Path,
                handle = strait_wire:integer(1, Reply),
                incarnation = incarnation(Client),
                length = strait_wire:integer(2, Reply),
                identity = strait_wire:binary(3, Reply)
            }};
        Error ->
            Error
    end.

incarnation(Client) ->
    case strait_session:settings(Client) of
        {ok, #{incarnation := Incarnation}} -> Incarnation;
        {error, _} -> 0
    end.

-spec handle(term(), #reader{}) -> {term(), #reader{}}.
handle({read, Count}, Reader) when is_integer(Count), Count >= 0 ->
    read(Count, Reader, []);
handle(read_line, Reader) ->
    read_line(Reader, []);
handle({pread, Offset, Count}, Reader) when is_integer(Offset), is_integer(Count), Offset >= 0, Count >= 0 ->
    pread(Offset, Count, Reader, []);
handle({position, Location}, Reader) ->
    position(Location, Reader);
handle(Request, #reader{path = Path} = Reader) when element(1, Request) =:= read; element(1, Request) =:= pread ->
    {{error, strait_error:new(invalid_argument, "a negative offset or length", Path)}, Reader};
handle(_, #reader{path = Path} = Reader) ->
    {{error, strait_error:new(unsupported, "the file is open for reading", Path)}, Reader}.

%% To the count, or the end.
read(0, Reader, Taken) ->
    {{ok, joined(Taken)}, Reader};
read(Count, Reader, Taken) ->
    case fill(Reader) of
        {<<>>, Filled} ->
            {ended(Taken), Filled};
        {<<Bytes/binary>>, Filled} ->
            {Part, Advanced} = take(min(Count, byte_size(Bytes)), Bytes, Filled),
            read(Count - byte_size(Part), Advanced, [Part | Taken]);
        {Error, Same} when Taken =:= [] ->
            {Error, Same};
        {_, Same} ->
            %% The next read tells the error.
            {{ok, joined(Taken)}, Same}
    end.

read_line(Reader, Taken) ->
    case fill(Reader) of
        {<<>>, Filled} ->
            {ended(Taken), Filled};
        {<<Bytes/binary>>, Filled} ->
            case binary:match(Bytes, <<"\n">>) of
                {At, 1} ->
                    {Part, Advanced} = take(At + 1, Bytes, Filled),
                    {{ok, joined([Part | Taken])}, Advanced};
                nomatch ->
                    {Part, Advanced} = take(byte_size(Bytes), Bytes, Filled),
                    read_line(Advanced, [Part | Taken])
            end;
        Failed ->
            Failed
    end.

ended([]) -> eof;
ended(Taken) -> {ok, joined(Taken)}.

joined([Part]) -> Part;
joined(Taken) -> iolist_to_binary(lists:reverse(Taken)).

%% A small part must not keep all the bytes read ahead in memory.
take(Count, Bytes, #reader{position = Position} = Reader) ->
    Part = binary:part(Bytes, 0, Count),
    Own =
        case 2 * Count < binary:referenced_byte_size(Part) of
            true -> binary:copy(Part);
            false -> Part
        end,
    {Own, Reader#reader{position = Position + Count}}.

%% The bytes at the position, from memory if they are there.
fill(#reader{position = Position, ahead = Ahead, ahead_at = At} = Reader) ->
    case Position - At of
        Skipped when Skipped >= 0, Skipped < byte_size(Ahead) ->
            {binary:part(Ahead, Skipped, byte_size(Ahead) - Skipped), Reader};
        _ ->
            case fetch(Position, ?READ_AHEAD_BYTES, Reader) of
                {{ok, Bytes}, Same} -> {Bytes, Same#reader{ahead = Bytes, ahead_at = Position}};
                Failed -> Failed
            end
    end.

pread(_, 0, Reader, Taken) ->
    {{ok, joined(Taken)}, Reader};
pread(Offset, Count, Reader, Taken) ->
    case fetch(Offset, Count, Reader) of
        {{ok, <<>>}, Same} -> {ended(Taken), Same};
        {{ok, Part}, Same} -> pread(Offset + byte_size(Part), Count - byte_size(Part), Same, [Part | Taken]);
        Failed -> Failed
    end.

%% One request's bytes.
fetch(Offset, Count, Reader) ->
    case read_range(Offset, Count, Reader) of
        {error, #{kind := Kind} = Error} when Kind =:= invalid_argument; Kind =:= not_found; Kind =:= unauthenticated ->
            case reopen(Error, Reader) of
                {ok, Reopened} -> {read_range(Offset, Count, Reopened), Reopened};
                Failed -> {Failed, Reader}
            end;
        Answer ->
            {Answer, Reader}
    end.

read_range(Offset, Count, #reader{client = Client, path = Path, handle = Handle}) ->
    case strait_session:settings(Client) of
        {ok, #{max_chunk_bytes := Most}} ->
            Asked = min(Count, Most),
            Request = [{2, i64, Handle}, {3, i64, Offset}, {4, i32, Asked}],
            taken(strait_call:query(Client, <<"readRange">>, Request, Path), Asked, Path);
        Error ->
            Error
    end.

taken({ok, Reply}, Asked, Path) ->
    case strait_wire:binary(1, Reply) of
        Bytes when byte_size(Bytes) =< Asked -> {ok, Bytes};
        _ -> {error, strait_error:new(internal, "the gateway's answer has more bytes than were asked for", Path)}
    end;
taken(Error, _, _) ->
    Error.

%% A handle ends with its session. Another file may have the name now, whose bytes nobody wants.
reopen(#{kind := Kind} = Error, #reader{client = Client, path = Path, length = Length} = Reader) ->
    case Kind =:= not_found orelse incarnation(Client) =/= Reader#reader.incarnation of
        false ->
            {error, Error};
        true ->
            case open(Client, Path) of
                {ok, #reader{length = Now} = Opened} ->
                    case Now >= Length andalso is_same(Reader#reader.identity, Opened#reader.identity) of
                        true ->
                            {ok, Reader#reader{handle = Opened#reader.handle, incarnation = Opened#reader.incarnation}};
                        false ->
                            drop(Opened),
                            {error, strait_error:new(unavailable, "the file was replaced while it was read", Path)}
                    end;
                Failed ->
                    Failed
            end
    end.

is_same(Before, Now) -> Before =:= <<>> orelse Now =:= <<>> orelse Before =:= Now.

position(Location, #reader{path = Path} = Reader) ->
    case target(Location, Reader) of
        Target when is_integer(Target), Target >= 0 ->
            {{ok, Target}, Reader#reader{position = Target}};
        _ ->
            {{error, strait_error:new(invalid_argument, "no position of the file", Path)}, Reader}
    end.

target(bof, _) -> 0;
target(cur, #reader{position = Position}) -> Position;
target(eof, #reader{length = Length}) -> Length;
target({Base, Offset}, Reader) when is_atom(Base), is_integer(Offset) ->
    case target(Base, Reader) of
        invalid -> invalid;
        From -> From + Offset
    end;
target(Offset, _) when is_integer(Offset) -> Offset;
target(_, _) -> invalid.

-spec close(#reader{}) -> {ok, #reader{}}.
close(Reader) -> {drop(Reader), Reader}.

-spec drop(#reader{}) -> ok.
drop(#reader{client = Client, handle = Handle}) ->
    strait_call:tidy(Client, <<"closeFile">>, [{4, i64, Handle}]).
