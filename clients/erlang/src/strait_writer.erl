%% @private An open file to write at its end: handle, and the bytes that the gateway hasn't taken. One request is in
%% flight at a time.
-module(strait_writer).
-export([create/3, append/2, handle/2, close/1, drop/1]).

-record(writer, {
    client :: pid(),
    path :: binary(),
    handle :: integer(),
    incarnation :: integer(),
    max_chunk_bytes :: pos_integer(),
    %% The file's length, as the gateway has answered.
    sent :: non_neg_integer(),
    %% The latest first; together one append at most.
    pending = [] :: [binary()],
    pending_bytes = 0 :: non_neg_integer(),
    %% The error that ended the file.
    failed :: strait_error:t() | undefined
}).

-spec create(pid(), binary(), strait_wire:request()) -> {ok, #writer{}} | {error, strait_error:t()}.
create(Client, Path, Options) -> open(Client, <<"createFile">>, [{4, text, Path} | Options], Path).

-spec append(pid(), binary()) -> {ok, #writer{}} | {error, strait_error:t()}.
append(Client, Path) -> open(Client, <<"appendFile">>, [{4, text, Path}], Path).

open(Client, Method, Request, Path) ->
    case strait_call:change(Client, Method, Request, Path) of
        {ok, Reply} ->
            case strait_session:settings(Client) of
                {ok, #{incarnation := Incarnation, max_chunk_bytes := Most}} ->
                    {ok, #writer{
                        client = Client,
                        path = Path,
                        handle = strait_wire:integer(1, Reply),
                        incarnation = Incarnation,
                        max_chunk_bytes = Most,
                        sent = strait_wire:integer(2, Reply)
                    }};
                Error ->
                    Error
            end;
        Error ->
            Error
    end.

-spec handle(term(), #writer{}) -> {term(), #writer{}}.
handle({position, cur}, #writer{sent = Sent, pending_bytes = Pending} = Writer) -> {{ok, Sent + Pending}, Writer};
handle(_, #writer{failed = Error} = Writer) when Error =/= undefined -> {{error, Error}, Writer};
handle({write, Bytes}, Writer) -> write(Bytes, Writer);
handle(flush, Writer) -> flush(1, Writer);
handle(sync, Writer) -> flush(2, Writer);
handle(_, #writer{path = Path} = Writer) ->
    {{error, strait_error:new(unsupported, "the file is open for writing at its end", Path)}, Writer}.

%% One of up to an append's bytes that fails has taken nothing.
write(<<>>, Writer) ->
    {ok, Writer};
write(Bytes, #writer{max_chunk_bytes = Most, pending_bytes = Pending} = Writer) when
    Pending + byte_size(Bytes) > Most, Pending > 0
->
    case send(Writer) of
        {ok, Sent} -> write(Bytes, Sent);
        Failed -> Failed
    end;
write(Bytes, #writer{max_chunk_bytes = Most, pending = Parts, pending_bytes = Pending} = Writer) ->
    Count = min(byte_size(Bytes), Most - Pending),
    <<Part:Count/binary, Rest/binary>> = Bytes,
    write(Rest, Writer#writer{pending = [Part | Parts], pending_bytes = Pending + Count}).

send(#writer{pending_bytes = 0} = Writer) ->
    {ok, Writer};
send(#writer{handle = Handle, sent = Sent, pending = Parts, pending_bytes = Pending} = Writer) ->
    Data = joined(Parts),
    Request = [{4, i64, Handle}, {5, i64, Sent}, {6, binary, Data}],
    case change(<<"appendData">>, Request, Writer) of
        {ok, Same} -> {ok, Same#writer{sent = Sent + Pending, pending = [], pending_bytes = 0}};
        Failed -> Failed
    end.

%% A single piece isn't copied.
joined([Part]) -> Part;
joined(Parts) -> iolist_to_binary(lists:reverse(Parts)).

flush(Mode, Writer) ->
    case send(Writer) of
        {ok, #writer{client = Client, path = Path, handle = Handle} = Sent} ->
            answer(strait_call:query(Client, <<"flushFile">>, [{2, i64, Handle}, {3, i32, Mode}], Path), Sent);
        Failed ->
            Failed
    end.

change(Method, Request, #writer{client = Client, path = Path} = Writer) ->
    answer(strait_call:change(Client, Method, Request, Path), Writer).

%% After no_space and unavailable the file goes on. After any other error it is over.
answer({ok, _}, Writer) ->
    {ok, Writer};
answer({error, #{kind := Kind}} = Error, Writer) when Kind =:= no_space; Kind =:= unavailable ->
    {Error, Writer};
answer({error, Error}, #writer{path = Path} = Writer) ->
    Told =
        case is_gone(Error, Writer) of
            true -> strait_error:new(outcome_unknown, "the session ended while the file was written", Path);
            false -> Error
        end,
    {{error, Told}, Writer#writer{failed = Told}}.

is_gone(#{kind := unauthenticated}, _) ->
    true;
is_gone(#{kind := invalid_argument}, #writer{client = Client, incarnation = Incarnation}) ->
    case strait_session:settings(Client) of
        {ok, #{incarnation := Now}} -> Now =/= Incarnation;
        {error, _} -> false
    end;
is_gone(_, _) ->
    false.

%% `still_open': it may be closed again.
-spec close(#writer{}) -> {ok | {error, strait_error:t()} | {still_open, strait_error:t()}, #writer{}}.
close(#writer{failed = undefined} = Writer) ->
    case send(Writer) of
        {ok, #writer{handle = Handle} = Sent} -> closed(change(<<"closeFile">>, [{4, i64, Handle}], Sent));
        Failed -> closed(Failed)
    end;
close(#writer{failed = Error} = Writer) ->
    {{error, Error}, Writer}.

closed({{error, Error}, #writer{failed = undefined} = Writer}) -> {{still_open, Error}, Writer};
closed(Answer) -> Answer.

%% What was flushed stays; other bytes may be lost.
-spec drop(#writer{}) -> ok.
drop(#writer{client = Client, handle = Handle}) ->
    strait_call:tidy(Client, <<"closeFile">>, [{4, i64, Handle}, {5, bool, true}]).
