(* Its interface is that of Strait.Reader. *)

(* The gateway's answer when it opened the file. *)
type opened = {
  handle : int64;
  length : int;
  identity : string option;
  incarnation : int64; (* of the session that has the handle *)
}

type t = {
  session : Session.t;
  path : string;
  process : int; (* the one that closes the handle *)
  mutable opened : opened;
  mutable position : int;
  mutable ahead : string; (* bytes of the file, of one request *)
  mutable ahead_at : int;
  mutable is_closed : bool;
}

let wrong file why = Failure.fail ~path:file.path Invalid_argument why
let length file = file.opened.length
let pos file = file.position

(* Handles *)

let open_handle session path =
  let reply = Session.call session ~path "openFile" [ (2, Bytes path) ] in
  {
    handle = Wire.int64 1 reply;
    length = Wire.int 2 reply;
    identity = Wire.bytes 3 reply;
    incarnation = Session.incarnation session;
  }

let close_handle session opened = Session.tidy session "closeFile" [ (4, I64 opened.handle) ]

let open_path session path =
  let opened = open_handle session path and process = Unix.getpid () in
  { session; path; process; opened; position = 0; ahead = ""; ahead_at = 0; is_closed = false }

(* The handle is gone, with its session or its gateway. Bytes of another file must not follow those of this one. *)
let reopen file =
  let before = file.opened and now = open_handle file.session file.path in
  let is_other = match (before.identity, now.identity) with Some one, Some other -> one <> other | _ -> false in
  if is_other || now.length < before.length then (
    close_handle file.session now;
    Failure.fail ~path:file.path Unavailable "the file was replaced while it was read");
  file.opened <- now

let close file =
  if not file.is_closed then (
    file.is_closed <- true;
    file.ahead <- "";
    if file.process = Unix.getpid () then close_handle file.session file.opened)

(* Bytes from an offset: fewer than asked for, or none at the end of the file. *)
let fetch file ~offset count =
  if file.is_closed then wrong file "the file is closed";
  let count = min count (Session.max_chunk_bytes file.session) in
  let range () =
    let request = [ (2, Wire.I64 file.opened.handle); (3, I64 (Int64.of_int offset)); (4, I32 (Int32.of_int count)) ] in
    let data = Wire.text 1 (Session.call file.session ~path:file.path "readRange" request) in
    if String.length data > count then Failure.fail ~path:file.path Internal "the gateway sent more than was asked for";
    data
  in
  let is_handle_gone = function
    | Failure.Not_found -> true
    | Invalid_argument | Unauthenticated -> file.opened.incarnation <> Session.incarnation file.session
    | _ -> false
  in
  try range ()
  with Failure.Error { kind; _ } when is_handle_gone kind ->
    reopen file;
    range ()

(* Reading *)

let check_range file ~offset ~length =
  if offset < 0 || length < 0 then wrong file "a negative offset or length"

let pread file ~offset length =
  check_range file ~offset ~length;
  let bytes = Buffer.create (min length (Session.max_chunk_bytes file.session)) in
  let rec fill () =
    let got = Buffer.length bytes in
    if got < length then
      match fetch file ~offset:(offset + got) (length - got) with
      | "" -> ()
      | data ->
          Buffer.add_string bytes data;
          fill ()
  in
  fill ();
  Buffer.contents bytes

(* Makes the byte at the position the one at an index of [ahead]; that is the end of [ahead] at the end of the file. *)
let look_ahead file =
  let index = file.position - file.ahead_at in
  if index >= 0 && index < String.length file.ahead then index
  else (
    file.ahead <- fetch file ~offset:file.position (Session.max_chunk_bytes file.session);
    file.ahead_at <- file.position;
    0)

let input file buffer offset length =
  if offset < 0 || length < 0 || offset > Bytes.length buffer - length then invalid_arg "Strait.Reader.input";
  if file.is_closed then wrong file "the file is closed";
  if length = 0 then 0
  else
    let index = look_ahead file in
    let count = min length (String.length file.ahead - index) in
    Bytes.blit_string file.ahead index buffer offset count;
    file.position <- file.position + count;
    count

(* Adds bytes until one that ends the piece, which it takes, too. *)
let rec add_until file bytes is_end =
  let index = look_ahead file in
  let available = String.length file.ahead - index in
  if available > 0 then (
    let last = is_end file.ahead index in
    let count = match last with Some last -> last + 1 - index | None -> available in
    Buffer.add_substring bytes file.ahead index count;
    file.position <- file.position + count;
    if last = None then add_until file bytes is_end)

let input_all file =
  let bytes = Buffer.create (max 0 (min (length file - file.position) (Session.max_chunk_bytes file.session))) in
  add_until file bytes (fun _ _ -> None);
  Buffer.contents bytes

let input_line file =
  let bytes = Buffer.create 80 in
  add_until file bytes (fun ahead index -> String.index_from_opt ahead index '\n');
  match Buffer.length bytes with
  | 0 -> None
  | length when Buffer.nth bytes (length - 1) = '\n' -> Some (Buffer.sub bytes 0 (length - 1))
  | _ -> Some (Buffer.contents bytes)

let seek file position =
  check_range file ~offset:position ~length:0;
  file.position <- position
