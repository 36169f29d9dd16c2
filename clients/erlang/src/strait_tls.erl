%% @private How a client trusts a gateway: by default the system's authorities vouch for its certificate, and the
%% certificate names the host.
-module(strait_tls).
-export([connect/4]).

-spec connect(gen_tcp:socket(), Host :: string(), true | [ssl:tls_client_option()], timeout()) ->
    {ok, ssl:sslsocket()} | {error, term()}.
connect(Socket, Host, true, Timeout) -> connect(Socket, Host, [], Timeout);
connect(Socket, Host, Given, Timeout) -> ssl:connect(Socket, options(Host, Given), Timeout).

options(Host, Given) ->
    Has = fun(Keys) -> lists:any(fun(Key) -> proplists:is_defined(Key, Given) end, Keys) end,
    Id = id(Host),
    Name = [{server_name_indication, Name} || {dns_id, Name} <- [Id], not Has([server_name_indication])],
    Authorities = [{cacerts, authorities()} || not Has([cacerts, cacertfile, verify])],
    Verify = [{verify, verify_peer} || not Has([verify])],
    Check = [{verify_fun, {fun check/3, {Id, pinned(Given)}}} || not Has([verify, verify_fun])],
    Given ++ Name ++ Authorities ++ Verify ++ Check ++ [{customize_hostname_check, [match()]}].

authorities() ->
    try
        public_key:cacerts_get()
    catch
        %% The system has none.
        error:_ -> []
    end.

id(Host) ->
    case inet:parse_address(Host) of
        {ok, Address} -> {ip, Address};
        {error, einval} -> {dns_id, Host}
    end.

match() -> {match_fun, public_key:pkix_verify_hostname_match_fun(https)}.

%% Certificates that the program names.
pinned(Given) ->
    Pem =
        case file:read_file(proplists:get_value(cacertfile, Given, "")) of
            {ok, Bytes} -> Bytes;
            {error, _} -> <<>>
        end,
    [Der || {'Certificate', Der, not_encrypted} <- public_key:pem_decode(Pem)] ++
        [Der || Der <- proplists:get_value(cacerts, Given, []), is_binary(Der)].

%% The ssl application rejects each certificate that signs itself. One that the program names is good: a gateway's own
%% certificate needs no authority. Its time and host are checked here, since ssl checks nothing after this answer.
check(Certificate, {bad_cert, selfsigned_peer}, {Id, Pinned} = State) ->
    Der = public_key:pkix_encode('OTPCertificate', Certificate, otp),
    IsGood =
        lists:member(Der, Pinned) andalso
            element(1, public_key:pkix_path_validation(Der, [Der], [])) =:= ok andalso
            public_key:pkix_verify_hostname(Certificate, [Id], [match()]),
    case IsGood of
        true -> {valid, State};
        false -> {fail, selfsigned_peer}
    end;
check(_, {bad_cert, _} = Reason, _) -> {fail, Reason};
check(_, {extension, _}, State) -> {unknown, State};
check(_, Valid, State) when Valid =:= valid; Valid =:= valid_peer -> {valid, State}.
