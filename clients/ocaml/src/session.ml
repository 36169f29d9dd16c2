type options = {
  store : string option;
  user : string option;
  password : string option;
  token : string option;
  timeout : float;
}

type store = { name : string; uri : string; capabilities : string list }

type t = {
  address : Uri.t;
  options : options;
  owner : int; (* the process that ends the session *)
  mutable connection : Connection.t option;
  mutable token : string option;
  mutable user : string;
  mutable store : store;
  mutable incarnation : int64;
  mutable max_chunk_bytes : int;
  mutable silences : int; (* requests without an answer, since the latest answer *)
  mutable is_busy : bool;
  mutable is_closed : bool;
}

let user session = session.user
let token (session : t) = Option.value session.token ~default:""
let store (session : t) = session.store
let incarnation session = session.incarnation
let max_chunk_bytes session = session.max_chunk_bytes

(* With the pauses, they span 1.6 to 3.1 s: a gateway's restart. *)
let attempts = 6
let first_pause = 0.1
let connect_timeout = 10.

(* For a request that only cleans up, once the gateway has left a request unanswered. *)
let parting_timeout = 2.
let most_chunk_bytes = 1024 * 1024
let protocol_version = 1l

(* From the system, so that a forked child has others than its parent. A channel would take 64 KiB. *)
let random_bytes () =
  let random = Unix.openfile "/dev/urandom" [ O_RDONLY; O_CLOEXEC ] 0 in
  let bytes = Bytes.create 16 in
  let read () = if Unix.read random bytes 0 16 <> 16 then failwith "/dev/urandom ended" in
  Fun.protect ~finally:(fun () -> Unix.close random) read;
  Bytes.unsafe_to_string bytes

let random_hex () =
  let digits byte = Printf.sprintf "%02x" (Char.code byte) in
  String.concat "" (List.map digits (List.of_seq (String.to_seq (random_bytes ()))))

(* From 1/2 to 1: the clients of one gateway don't all return at the same moment. *)
let jitter () = 0.5 +. (float_of_int (String.get_uint16_be (random_bytes ()) 0) /. 131070.)
let with_id request = (2, Wire.Bytes (random_bytes ())) :: request
let as_retry request = (3, Wire.Bool true) :: request
let text number value = Option.to_list (Option.map (fun text -> (number, Wire.Bytes text)) value)

(* Attach *)

let drop_connection session =
  Option.iter Connection.close session.connection;
  session.connection <- None

let learn session reply =
  let store = Wire.fields 4 reply in
  let capability = function Wire.Bytes name -> Some name | _ -> None in
  let capabilities = List.filter_map capability (Wire.list 3 store) in
  let chunk = Wire.int 1 (Wire.fields 6 reply) in
  (match Wire.bytes 1 reply with Some token -> session.token <- Some token | None -> ());
  session.user <- Wire.text 3 reply;
  session.store <- { name = Wire.text 1 store; uri = Wire.text 2 store; capabilities };
  session.incarnation <- Wire.int64 7 reply;
  session.max_chunk_bytes <- (if chunk > 0 then min chunk most_chunk_bytes else most_chunk_bytes)

let open_session session connection deadline =
  let { options; address; _ } = session in
  let send fields = Connection.call connection deadline "openSession" ((1, Wire.I32 protocol_version) :: fields) in
  let log_in () =
    let store = if address.store = None then options.store else address.store in
    send (text 2 store @ text 3 options.user @ text 4 options.password)
  in
  match session.token with
  | None -> log_in ()
  | Some _ when options.token <> None -> send (text 5 session.token)
  | Some _ -> (
      (* A session that has ended: log in anew. *)
      try send (text 5 session.token) with Failure.Error { kind = Unauthenticated; _ } -> log_in ())

(* A new connection that is attached to the session. The caller's own request wasn't sent if it fails. *)
let attach session deadline =
  let { options; address; _ } = session in
  let connection = Connection.connect address (Deadline.earlier deadline (Deadline.after connect_timeout)) in
  try
    if (options.password <> None || options.token <> None) && not (Connection.is_local connection) then
      Failure.fail Unauthenticated
        "a password or token isn't sent to another machine in clear text, and this client has no TLS: use a gateway of \
         this host";
    learn session (open_session session connection deadline);
    session.connection <- Some connection;
    connection
  with failure ->
    Connection.close connection;
    raise
      (match failure with Connection.Lost { message; _ } -> Connection.Lost { message; sent = false } | other -> other)

let usable_connection session deadline =
  match session.connection with
  | Some connection when Connection.is_usable connection -> connection
  | Some _ | None ->
      drop_connection session;
      attach session deadline

(* Call *)

(* One call at a time: replies on a connection would go to the wrong thread. *)
let exclusively session act =
  if session.is_closed then Failure.fail Invalid_argument "the client is closed";
  if session.is_busy then Failure.fail Invalid_argument "another thread uses the client: connect one for each thread";
  session.is_busy <- true;
  Fun.protect ~finally:(fun () -> session.is_busy <- false) act

(* How an attempt ended, and whether the request was sent. *)
type outcome =
  | Reply of Wire.fields
  | Cut of string * [ `Sent | `Unsent ]
  | Failed of Failure.t * [ `Sent | `Unsent ]

let attempt session ?path ~deadline ~connect_by name request =
  match usable_connection session connect_by with
  | exception Connection.Lost { message; _ } -> Cut (message, `Unsent)
  | exception Failure.Error failure -> Failed (failure, `Unsent)
  | connection -> (
      (* A reply may still be due, also if a signal's handler raised an exception. *)
      let finally () = if Connection.is_idle connection then session.silences <- 0 else drop_connection session in
      match Fun.protect ~finally (fun () -> Connection.call connection ?path deadline name request) with
      | reply -> Reply reply
      | exception Failure.Error failure -> Failed (failure, `Sent)
      | exception Connection.Lost { message; sent } -> Cut (message, if sent then `Sent else `Unsent))

let note_silence session = session.silences <- session.silences + 1
let unavailable ?path why = Failure.fail ?path ~retry_safe:true Unavailable why
let unknown ?path name why = Failure.fail ?path Outcome_unknown (name ^ " may have been executed: " ^ why)

let call session ?path ?(changes = false) name request =
  let request = if changes then with_id request else request in
  let deadline = Deadline.after session.options.timeout in
  let rec go number ~connect_by ~was_sent ~is_renewed =
    let marked = if changes && was_sent then as_retry request else request in
    let limit = Option.value connect_by ~default:deadline in
    match attempt session ?path ~deadline ~connect_by:limit name marked with
    | Reply reply -> reply
    | Failed ({ kind = Unauthenticated; _ }, `Sent) when not is_renewed ->
        (* The session idled out, or its gateway was replaced: log in, once. *)
        drop_connection session;
        go number ~connect_by ~was_sent ~is_renewed:true
    | Failed ({ kind; message; retry_safe; _ } as failure, sent) ->
        if kind = Timed_out then note_silence session;
        if sent = `Unsent && was_sent && changes then unknown ?path name message
        else if kind = Timed_out then
          let retry_safe = retry_safe && not (changes && (was_sent || sent = `Sent)) in
          Failure.fail ?path ~retry_safe kind message
        else raise (Failure.Error failure)
    | Cut (message, sent) ->
        (* A gateway that is gone gets this time to return, from the first cut. *)
        let from_now = Deadline.earlier deadline (Deadline.after connect_timeout) in
        let connect_by = Option.value connect_by ~default:from_now in
        let was_sent = was_sent || sent = `Sent in
        let pause = first_pause *. (2. ** float_of_int (number - 1)) *. jitter () in
        if number < attempts && pause < Deadline.left connect_by then (
          Unix.sleepf pause;
          go (number + 1) ~connect_by:(Some connect_by) ~was_sent ~is_renewed)
        else (
          note_silence session;
          if was_sent && changes then unknown ?path name message else unavailable ?path message)
  in
  exclusively session (fun () -> go 1 ~connect_by:None ~was_sent:false ~is_renewed:false)

let once session ?path deadline name request =
  match exclusively session (fun () -> attempt session ?path ~deadline ~connect_by:deadline name request) with
  | Reply reply -> reply
  | Cut (message, _) -> unavailable ?path message
  | Failed (failure, _) ->
      if failure.kind = Timed_out then note_silence session;
      raise (Failure.Error failure)

let call_once session ?path name request = once session ?path (Deadline.after session.options.timeout) name request

let tidy session ?(changes = false) name request =
  let { timeout; _ } = session.options in
  let deadline = Deadline.after (if session.silences = 0 then timeout else Float.min timeout parting_timeout) in
  if session.silences < 2 && not session.is_closed then
    try ignore (once session deadline name (if changes then with_id request else request)) with Failure.Error _ -> ()

(* Begin and end *)

let connect address (options : options) =
  let session =
    {
      address;
      options;
      owner = Unix.getpid ();
      connection = None;
      token = options.token;
      user = "";
      store = { name = ""; uri = ""; capabilities = [] };
      incarnation = 0L;
      max_chunk_bytes = most_chunk_bytes;
      silences = 0;
      is_busy = false;
      is_closed = false;
    }
  in
  match attach session (Deadline.after options.timeout) with
  | (_ : Connection.t) -> session
  | exception Connection.Lost { message; _ } -> unavailable message

let close session =
  if session.owner = Unix.getpid () then tidy session "closeSession" [];
  session.is_closed <- true;
  drop_connection session
