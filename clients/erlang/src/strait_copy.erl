%% @private Whole files, and copies that appear under their names only when they are complete.
-module(strait_copy).
-export([read_file/2, write_file/3, get/4, put/4]).

-type result() :: ok | {error, strait_error:t()}.

-define(PIECE_BYTES, (1 bsl 20)).

-spec read_file(pid(), binary()) -> {ok, binary()} | {error, strait_error:t()}.
read_file(Client, Path) ->
    with_open(strait:open(Client, Path), fun(File) ->
        Take = fun(Bytes, Pieces) -> {ok, [Bytes | Pieces]} end,
        case fold(fun() -> strait:read(File, ?PIECE_BYTES) end, Take, []) of
            {ok, Pieces} -> {ok, iolist_to_binary(lists:reverse(Pieces))};
            Error -> Error
        end
    end).

-spec write_file(pid(), binary(), binary()) -> result().
write_file(Client, Path, Bytes) ->
    fill(strait:open(Client, Path, [write]), fun(File) -> strait:write(File, Bytes) end).

%% Calls the function with a reader, which is closed afterwards.
with_open({ok, File}, Function) ->
    try
        Function(File)
    after
        strait:close(File)
    end;
with_open(Error, _) ->
    Error.

%% A writer is closed after success only.
fill({ok, File}, Function) ->
    Closed =
        case Function(File) of
            ok -> strait:close(File);
            Failed -> Failed
        end,
    Closed =:= ok orelse strait:abandon(File),
    Closed;
fill(Error, _) ->
    Error.

fold(Read, Take, Acc) ->
    case Read() of
        {ok, Bytes} ->
            case Take(Bytes, Acc) of
                {ok, Next} -> fold(Read, Take, Next);
                Error -> Error
            end;
        eof ->
            {ok, Acc};
        Error ->
            Error
    end.

copy(Read, Write) ->
    Take = fun(Bytes, done) ->
        case Write(Bytes) of
            ok -> {ok, done};
            Error -> Error
        end
    end,
    case fold(Read, Take, done) of
        {ok, done} -> ok;
        Error -> Error
    end.

-spec get(pid(), binary(), file:name_all(), boolean()) -> result().
get(Client, Source, Target, Replace) ->
    %% Told before the bytes come; name/3 decides.
    case not Replace andalso file:read_link_info(Target) of
        {ok, _} -> {error, strait_error:of_posix(eexist, Target)};
        _ -> with_open(strait:open(Client, Source), fun(File) -> get_to(File, Target, Replace) end)
    end.

get_to(File, Target, Replace) ->
    Temporary = filename:join(filename:dirname(Target), ".strait-get-" ++ random()),
    try
        case write_local(File, Temporary) of
            ok -> local(name(Temporary, Target, Replace), Target);
            %% Nobody knows the temporary name.
            Error -> local(Error, Target)
        end
    after
        file:delete(Temporary)
    end.

write_local(File, Temporary) ->
    case file:open(Temporary, [write, exclusive, raw, binary]) of
        {ok, Local} ->
            try
                copy(fun() -> strait:read(File, ?PIECE_BYTES) end, fun(Bytes) -> file:write(Local, Bytes) end)
            after
                file:close(Local)
            end;
        Error ->
            Error
    end.

name(Temporary, Target, true) ->
    file:rename(Temporary, Target);
name(Temporary, Target, false) ->
    %% A link never replaces. Some file systems have none.
    case file:make_link(Temporary, Target) of
        {error, Why} when Why =:= enotsup; Why =:= eperm -> file:rename(Temporary, Target);
        Answer -> Answer
    end.

local({error, Posix}, Name) when is_atom(Posix) -> {error, strait_error:of_posix(Posix, Name)};
local(Answer, _) -> Answer.

-spec put(pid(), file:name_all(), binary(), boolean()) -> result().
put(Client, Source, Target, Replace) ->
    case strait:stat(Client, Target) of
        {ok, #{type := directory}} ->
            Inside = iolist_to_binary([string:trim(Target, trailing, "/"), "/", basename(Source)]),
            put_at(strait:stat(Client, Inside), Client, Source, Inside, Replace);
        Found ->
            put_at(Found, Client, Source, Target, Replace)
    end.

basename(Source) ->
    case filename:basename(Source) of
        Name when is_binary(Name) -> Name;
        Name -> unicode:characters_to_binary(Name)
    end.

put_at({ok, _}, _, _, Target, false) ->
    {error, strait_error:new(already_exists, "the path is taken", Target)};
put_at({ok, #{type := directory}}, _, _, Target, true) ->
    {error, strait_error:new(is_a_directory, "the target is a directory", Target)};
put_at({ok, _}, Client, Source, Target, true) ->
    put_by_temporary(Client, Source, Target, true);
put_at({error, #{kind := not_found}}, Client, Source, Target, Replace) ->
    put_by_temporary(Client, Source, Target, Replace);
put_at(Error, _, _, _, _) ->
    Error.

put_by_temporary(Client, Source, Target, Replace) ->
    Temporary = iolist_to_binary([directory(Target), ".strait-put-", random()]),
    case local(file:open(Source, [read, raw, binary]), Source) of
        {ok, Local} ->
            Read = fun() -> local(file:read(Local, ?PIECE_BYTES), Source) end,
            Answer =
                try fill(strait:open(Client, Temporary, [exclusive]), fun(File) ->
                        copy(Read, fun(Bytes) -> strait:write(File, Bytes) end)
                    end) of
                    ok -> settle(Client, Temporary, Target, Replace);
                    Error -> Error
                after
                    file:close(Local)
                end,
            Answer =:= ok orelse strait_call:tidy(Client, <<"removePath">>, [{4, text, Temporary}]),
            renamed(Answer, Temporary, Target);
        Error ->
            Error
    end.

settle(Client, Temporary, Target, false) ->
    strait:rename(Client, Temporary, Target);
settle(Client, Temporary, Target, true) ->
    {ok, #{store := #{capabilities := Capabilities}}} = strait:session(Client),
    case lists:member(<<"rename_replace">>, Capabilities) of
        true ->
            strait:rename(Client, Temporary, Target, #{replace => true});
        false ->
            case strait:remove(Client, Target) of
                {error, #{kind := Kind} = Error} when Kind =/= not_found -> {error, Error};
                _ -> strait:rename(Client, Temporary, Target)
            end
    end.

%% Nobody knows the temporary name.
renamed({error, #{path := Temporary, message := Message} = Error}, Temporary, Target) ->
    {error, Error#{path := Target, message := binary:replace(Message, Temporary, Target, [global])}};
renamed(Answer, _, _) ->
    Answer.

directory(Target) ->
    Name = lists:last(binary:split(Target, <<"/">>, [global])),
    binary:part(Target, 0, byte_size(Target) - byte_size(Name)).

random() -> binary_to_list(binary:encode_hex(crypto:strong_rand_bytes(8))).
