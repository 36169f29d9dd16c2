(* Its interface is that of Strait.Writer. *)

type state =
  | Open
  | Closed
  | Lost of Failure.t  (** the error that ended it *)

type t = {
  session : Session.t;
  path : string;
  process : int; (* the one that may use the handle *)
  handle : int64;
  incarnation : int64; (* of the session that has the handle *)
  pending : bytes; (* what the gateway hasn't taken: one request's *)
  mutable filled : int;
  mutable sent : int; (* the file's length at the gateway *)
  mutable state : state;
}

let is_mine file = file.process = Unix.getpid ()
let pos file = file.sent + file.filled

let open_path session name request path =
  let reply = Session.call session ~path ~changes:true name request in
  {
    session;
    path;
    process = Unix.getpid ();
    handle = Wire.int64 1 reply;
    incarnation = Session.incarnation session;
    pending = Bytes.create (Session.max_chunk_bytes session);
    filled = 0;
    sent = Wire.int 2 reply;
    state = Open;
  }

let check_open file =
  match file.state with
  | Open -> ()
  | Closed -> Failure.fail ~path:file.path Invalid_argument "the file is closed"
  | Lost failure -> raise (Failure.Error failure)

(* After No_space and Unavailable the file goes on, after other errors it is over. If its handle is gone, nobody knows
   what became of the last bytes. *)
let call file ?changes name request =
  check_open file;
  if not (is_mine file) then Failure.fail ~path:file.path Invalid_argument "another process is writing the file";
  let end_with failure =
    file.state <- Lost failure;
    raise (Failure.Error failure)
  in
  let is_gone = function
    | Failure.Unauthenticated -> true
    | Invalid_argument -> file.incarnation <> Session.incarnation file.session
    | _ -> false
  in
  try Session.call file.session ~path:file.path ?changes name request with
  | Failure.Error { kind = No_space | Unavailable; _ } as failure -> raise failure
  | Failure.Error { kind; _ } when is_gone kind -> (
      try Failure.fail ~path:file.path Outcome_unknown "the session ended while the file was written"
      with Failure.Error failure -> end_with failure)
  | Failure.Error failure -> end_with failure

(* [data] doesn't change until the request ends. *)
let append file data =
  let request = [ (4, Wire.I64 file.handle); (5, I64 (Int64.of_int file.sent)); (6, Bytes data) ] in
  ignore (call file ~changes:true "appendData" request);
  file.sent <- file.sent + String.length data

let send file =
  if file.filled > 0 then (
    let is_full = file.filled = Bytes.length file.pending in
    append file (if is_full then Bytes.unsafe_to_string file.pending else Bytes.sub_string file.pending 0 file.filled);
    file.filled <- 0)

let rec output_substring file text offset length =
  if offset < 0 || length < 0 || offset > String.length text - length then invalid_arg "Strait.Writer.output";
  check_open file;
  if length > 0 then (
    let capacity = Bytes.length file.pending in
    (* A piece that fits one request isn't split: so if that fails, none of the piece was taken. *)
    if file.filled + min length capacity > capacity then send file;
    let count = min length (capacity - file.filled) in
    if count = capacity then append file (if count = String.length text then text else String.sub text offset count)
    else (
      Bytes.blit_string text offset file.pending file.filled count;
      file.filled <- file.filled + count);
    output_substring file text (offset + count) (length - count))

let output file bytes offset length = output_substring file (Bytes.unsafe_to_string bytes) offset length
let output_string file text = output_substring file text 0 (String.length text)

let flush_as mode file =
  send file;
  ignore (call file "flushFile" [ (2, I64 file.handle); (3, I32 mode) ])

let flush = flush_as 1l
let sync = flush_as 2l

let close file =
  match file.state with
  | Closed -> ()
  | Open | Lost _ ->
      send file;
      ignore (call file ~changes:true "closeFile" [ (4, I64 file.handle) ]);
      file.state <- Closed

let abandon file =
  if file.state = Open && is_mine file then
    Session.tidy file.session ~changes:true "closeFile" [ (4, I64 file.handle); (5, Bool true) ];
  file.state <- Closed
