%% @private The process of an open file. It is also a device for `file' and `io', whose protocols it speaks.
-module(strait_file).
-behaviour(gen_server).
-export([start_link/2, call/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(file, {
    kind :: strait_reader | strait_writer,
    state :: term(),
    is_closed = false :: boolean()
}).

%% The file is linked to the process that opens it, and given up when that ends.
-spec start_link(strait_reader | strait_writer, term()) -> {ok, pid()}.
start_link(Kind, State) ->
    {ok, _} = gen_server:start_link(?MODULE, #file{kind = Kind, state = State}, []).

-spec call(pid(), term()) -> term().
call(File, Request) ->
    try
        gen_server:call(File, Request, infinity)
    catch
        exit:_ -> {error, strait_error:new(invalid_argument, "the file is closed")}
    end.

-spec init(#file{}) -> {ok, #file{}}.
init(File) ->
    %% So that terminate/2 runs when the owner ends.
    _ = process_flag(trap_exit, true),
    {ok, File}.

-spec handle_call(term(), gen_server:from(), #file{}) -> {reply, term(), #file{}} | {stop, normal, term(), #file{}}.
handle_call(Request, _, File) ->
    case answer(Request, File) of
        {Reply, #file{is_closed = true} = Closed} -> {stop, normal, Reply, Closed};
        {Reply, Next} -> {reply, Reply, Next}
    end.

-spec handle_cast(term(), #file{}) -> {noreply, #file{}}.
handle_cast(_, File) -> {noreply, File}.

-spec handle_info(term(), #file{}) -> {noreply, #file{}} | {stop, normal, #file{}}.
handle_info({file_request, From, As, Request}, File) ->
    {Reply, Next} = answer(of_file(Request), File),
    _ = From ! {file_reply, As, native(Reply)},
    next(Next);
handle_info({io_request, From, As, Request}, File) ->
    {Reply, Next} = io_request(Request, File),
    _ = From ! {io_reply, As, Reply},
    next(Next);
handle_info(_, File) ->
    {noreply, File}.

next(#file{is_closed = true} = File) -> {stop, normal, File};
next(File) -> {noreply, File}.

-spec terminate(term(), #file{}) -> ok.
terminate(_, #file{is_closed = true}) -> ok;
terminate(_, #file{kind = Kind, state = State}) -> Kind:drop(State).

answer(close, #file{kind = Kind, state = State} = File) ->
    case Kind:close(State) of
        {{still_open, Error}, Next} ->
            {{error, Error}, File#file{state = Next}};
        {{error, _} = Error, Next} ->
            Kind:drop(Next),
            {Error, File#file{state = Next, is_closed = true}};
        {ok, Next} ->
            {ok, File#file{state = Next, is_closed = true}}
    end;
answer(abandon, #file{kind = Kind, state = State} = File) ->
    {Kind:drop(State), File#file{is_closed = true}};
answer(Request, #file{kind = Kind, state = State} = File) ->
    {Reply, Next} = Kind:handle(Request, State),
    {Reply, File#file{state = Next}}.

%% The requests of `file', as its own files take them.
of_file({position, Location}) -> {position, Location};
of_file({pread, Offset, Count}) -> {pread, Offset, Count};
of_file(datasync) -> sync;
of_file(Request) -> Request.

%% These modules' errors are atoms.
native({error, Error}) -> {error, strait_error:posix(Error)};
native(Reply) -> Reply.

%% The I/O protocol. The text of a file is UTF-8, and its bytes come as they are.
io_request({put_chars, Encoding, Text}, File) ->
    try unicode:characters_to_binary(Text, Encoding, to(Encoding)) of
        <<Bytes/binary>> ->
            {Reply, Next} = answer({write, Bytes}, File),
            {native(Reply), Next};
        _ ->
            {{error, einval}, File}
    catch
        error:badarg -> {{error, einval}, File}
    end;
io_request({put_chars, Encoding, Module, Function, Arguments}, File) ->
    try
        io_request({put_chars, Encoding, apply(Module, Function, Arguments)}, File)
    catch
        _:_ -> {{error, Function}, File}
    end;
io_request({get_chars, _, _, Count}, File) ->
    read({read, Count}, File);
io_request({get_line, _, _}, File) ->
    read(read_line, File);
io_request(getopts, File) ->
    {[{binary, true}, {encoding, utf8}], File};
io_request({requests, Requests}, File) ->
    lists:foldl(
        fun
            (_, {{error, _}, _} = Failed) -> Failed;
            (Request, {_, Next}) -> io_request(Request, Next)
        end,
        {ok, File},
        Requests
    );
io_request(_, File) ->
    {{error, request}, File}.

%% Bytes of file:write/2 are called latin1.
to(latin1) -> latin1;
to(_) -> utf8.

read(Request, File) ->
    case answer(Request, File) of
        {{ok, Bytes}, Next} -> {Bytes, Next};
        {Reply, Next} -> {native(Reply), Next}
    end.
