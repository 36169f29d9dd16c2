(* bare_calls read|write HOST:PORT PATH MIB: as bare_calls.rb, but by channels: Thrift's runtime for OCaml is older than
   today's immutable strings. The frames have the bytes of Thrift's binary protocol. *)

let piece_bytes = 1 lsl 20

let i32 number =
  let bytes = Bytes.create 4 in
  Bytes.set_int32_be bytes 0 (Int32.of_int number);
  Bytes.unsafe_to_string bytes

let i64 number =
  let bytes = Bytes.create 8 in
  Bytes.set_int64_be bytes 0 number;
  Bytes.unsafe_to_string bytes

let field kind number value = Printf.sprintf "%c\000%c%s" (Char.chr kind) (Char.chr number) value
let number32 id value = field 8 id (i32 value)
let number64 id value = field 10 id (i64 value)
let text id value = field 11 id (i32 (String.length value) ^ value)
let new_id id = text id (String.init 16 (fun _ -> Char.chr (Random.int 256)))

(* The reply's frame. The last part of a request's fields may be large, so it goes out by itself. *)
let call (input, output) name ?(data = "") fields =
  let head = "\x80\001\000\001" ^ i32 (String.length name) ^ name ^ i32 0 ^ "\012\000\001" ^ fields in
  output_string output (i32 (String.length head + String.length data + 2));
  output_string output head;
  output_string output data;
  output_string output "\000\000";
  flush output;
  really_input_string input (input_binary_int input)

(* The first field of a reply. *)
let handle name reply = String.get_int64_be reply (18 + String.length name)

let read gateway path mib =
  let file = handle "openFile" (call gateway "openFile" (text 2 path)) in
  for n = 0 to mib - 1 do
    let offset = Int64.of_int (n * piece_bytes) in
    let reply = call gateway "readRange" (number64 2 file ^ number64 3 offset ^ number32 4 piece_bytes) in
    if String.length reply < piece_bytes then failwith "a short reply"
  done;
  ignore (call gateway "closeFile" (number64 4 file))

let write gateway path mib =
  let file = handle "createFile" (call gateway "createFile" (new_id 2 ^ text 4 path)) in
  let data = String.make piece_bytes '\000' in
  for n = 0 to mib - 1 do
    let offset = Int64.of_int (n * piece_bytes) in
    let head = new_id 2 ^ number64 4 file ^ number64 5 offset ^ field 11 6 (i32 piece_bytes) in
    ignore (call gateway "appendData" ~data head)
  done;
  ignore (call gateway "closeFile" (new_id 2 ^ number64 4 file))

let () =
  Random.self_init ();
  match String.split_on_char ':' Sys.argv.(2) with
  | [ host; port ] ->
      let socket = Unix.socket Unix.PF_INET Unix.SOCK_STREAM 0 in
      Unix.connect socket (Unix.ADDR_INET (Unix.inet_addr_of_string host, int_of_string port));
      Unix.setsockopt socket Unix.TCP_NODELAY true;
      let gateway = (Unix.in_channel_of_descr socket, Unix.out_channel_of_descr socket) in
      ignore (call gateway "openSession" (number32 1 1));
      print_endline "ready";
      ignore (read_line ());
      (if Sys.argv.(1) = "read" then read else write) gateway Sys.argv.(3) (int_of_string Sys.argv.(4));
      print_endline "done"
  | _ -> failwith "no HOST:PORT"
