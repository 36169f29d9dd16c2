(* Calls of both generations of the interface. Thrift's runtime for OCaml is older than today's immutable strings: a
   codec of the framed binary protocol replaces it. Fields have the numbers of idl/dfs.thrift.
   ocamlopt unix.cmxa str.cmxa story.ml -o story; ./story HOST PORT DIRECTORY *)

(* The types that the interface uses. A struct is its fields by their numbers. *)
type value =
  | Bool of bool
  | I16 of int
  | I32 of int32
  | I64 of int64
  | Bytes of string
  | Struct of (int * value) list
  | List of value list

exception Dfs_service_io_exception of string

exception Dfs_error of { code : int32; kind : string; message : string; path : string }

(* Values to bytes *)

let bytes_tag = 11

let tag = function
  | Bool _ -> 2
  | I16 _ -> 6
  | I32 _ -> 8
  | I64 _ -> 10
  | Bytes _ -> bytes_tag
  | Struct _ -> 12
  | List _ -> 15

let put_length buffer length = Buffer.add_int32_be buffer (Int32.of_int length)

let rec put buffer = function
  | Bool flag -> Buffer.add_int8 buffer (Bool.to_int flag)
  | I16 number -> Buffer.add_int16_be buffer number
  | I32 number -> Buffer.add_int32_be buffer number
  | I64 number -> Buffer.add_int64_be buffer number
  | Bytes text ->
      put_length buffer (String.length text);
      Buffer.add_string buffer text
  | Struct fields ->
      let put_field (number, value) =
        Buffer.add_int8 buffer (tag value);
        Buffer.add_int16_be buffer number;
        put buffer value
      in
      List.iter put_field fields;
      Buffer.add_int8 buffer 0
  | List values ->
      Buffer.add_int8 buffer (match values with [] -> bytes_tag | first :: _ -> tag first);
      put_length buffer (List.length values);
      List.iter (put buffer) values

(* Bytes to values. A read beyond the end raises Invalid_argument. *)

type reader = { reply : string; mutable position : int }

let take reader size get =
  let position = reader.position in
  reader.position <- position + size;
  get reader.reply position

let take_byte reader = take reader 1 String.get_uint8
let take_i16 reader = take reader 2 String.get_int16_be
let take_i32 reader = take reader 4 String.get_int32_be
let take_length reader = Int32.to_int (take_i32 reader)

let take_bytes reader =
  let length = take_length reader in
  take reader length (fun reply position -> String.sub reply position length)

let rec take_value reader = function
  | 2 -> Bool (take_byte reader <> 0)
  | 6 -> I16 (take_i16 reader)
  | 8 -> I32 (take_i32 reader)
  | 10 -> I64 (take reader 8 String.get_int64_be)
  | 11 -> Bytes (take_bytes reader)
  | 12 -> Struct (take_fields reader)
  | 15 ->
      let element = take_byte reader in
      let count = take_length reader in
      List (List.init count (fun _ -> take_value reader element))
  | other -> failwith (Printf.sprintf "a value of type %d" other)

and take_fields reader =
  match take_byte reader with
  | 0 -> []
  | tag ->
      let number = take_i16 reader in
      let value = take_value reader tag in
      (number, value) :: take_fields reader

(* Calls *)

type client = { input : in_channel; output : out_channel }

let connect host port =
  match Unix.getaddrinfo host port [ Unix.AI_SOCKTYPE Unix.SOCK_STREAM ] with
  | [] -> failwith ("no address of " ^ host)
  | { Unix.ai_addr; _ } :: _ ->
      let input, output = Unix.open_connection ai_addr in
      { input; output }

let max_frame = 64 * 1024 * 1024 (* so a wrong length allocates nothing *)

(* The method's result, or the fields of the exception that its interface names. One call at a time, so all have the
   sequence number 0. *)
let exchange client name arguments =
  let call = Buffer.create 256 in
  Buffer.add_string call "\x80\x01\x00\x01";
  put call (Bytes name);
  put call (I32 0l);
  put call (Struct arguments);
  output_binary_int client.output (Buffer.length call);
  Buffer.output_buffer client.output call;
  flush client.output;
  let size = input_binary_int client.input in
  if size < 0 || size > max_frame then failwith (Printf.sprintf "a frame of %d bytes" size);
  let reader = { reply = really_input_string client.input size; position = 0 } in
  let message_type = take_i32 reader in
  let _name = take_bytes reader in
  let _sequence = take_i32 reader in
  match (message_type, take_fields reader) with
  | 0x80010002l, [ (0, value) ] -> Ok value
  | 0x80010002l, [ (_, Struct failure) ] -> Error failure
  | _, (1, Bytes message) :: _ -> failwith (name ^ ": " ^ message)
  | _ -> failwith (name ^ ": not a reply of Thrift's binary protocol")

let text number fields = match List.assoc_opt number fields with Some (Bytes text) -> text | _ -> ""

(* A method of DfsService, with its arguments in order. *)
let call_of_2009 client name arguments =
  match exchange client name (List.mapi (fun index value -> (index + 1, value)) arguments) with
  | Ok value -> value
  | Error failure -> raise (Dfs_service_io_exception (text 1 failure))

(* A method of DfsV2: the fields of its request, and those of its reply. *)
let call_of_today client name request =
  match exchange client name [ (1, Struct request) ] with
  | Ok (Struct reply) -> reply
  | Ok _ -> failwith (name ^ ": no struct")
  | Error failure ->
      let code = match List.assoc_opt 1 failure with Some (I32 code) -> code | _ -> 0l in
      raise (Dfs_error { code; kind = text 2 failure; message = text 3 failure; path = text 4 failure })

(* The story *)

let names number entries =
  let name = function Struct fields -> Filename.basename (text number fields) | _ -> "" in
  List.sort compare (List.map name entries)

(* The same in each attempt of one change, so that a repeated one isn't executed twice. *)
let new_id () =
  let random = open_in_bin "/dev/urandom" in
  Fun.protect ~finally:(fun () -> close_in random) (fun () -> Bytes (really_input_string random 16))

let listed = function List values -> values | _ -> failwith "no list"

let story_of_2009 client directory =
  let call = call_of_2009 client and path = Bytes (directory ^ "/old") in
  let session = call "init" [ Bytes "" ] in
  assert (call "mkdir" [ session; Bytes directory ] = Bool true);
  let file = call "open" [ session; path; I16 2 (* WRITE *) ] in
  assert (call "write" [ session; file; Bytes "bytes\x00\xff"; I64 (-1L); I64 7L ] = Bool true);
  assert (call "close" [ session; file ] = Bool true);
  (match call "stat" [ session; path ] with
  | Struct status -> assert (List.assoc 1 status = I64 7L)
  | _ -> assert false);
  let file = call "open" [ session; path; I16 1 (* READ *) ] in
  assert (call "read" [ session; file; I64 0L; I64 100L ] = Bytes "bytes\x00\xff");
  assert (call "close" [ session; file ] = Bool true);
  assert (names 9 (listed (call "listFiles" [ session; Bytes directory ])) = [ "old" ]);
  (match call "stat" [ session; Bytes (directory ^ "/missing") ] with
  | _ -> assert false
  | exception Dfs_service_io_exception message -> assert (Str.search_forward (Str.regexp_string "missing") message 0 >= 0));
  assert (call "closeClient" [ session ] = Bool true)

let story_of_today client directory =
  let call = call_of_today client and path = Bytes (directory ^ "/new") and missing = directory ^ "/missing" in
  ignore (call "openSession" [ (1, I32 1l) ]);
  let file = List.assoc 1 (call "createFile" [ (2, new_id ()); (4, path) ]) in
  let appended = call "appendData" [ (2, new_id ()); (4, file); (5, I64 0L); (6, Bytes "bytes\x00\xff") ] in
  assert (List.assoc 1 appended = I64 7L);
  assert (List.assoc 1 (call "closeFile" [ (2, new_id ()); (4, file) ]) = I64 7L);
  let file = List.assoc 1 (call "openFile" [ (2, path) ]) in
  let range = call "readRange" [ (2, file); (3, I64 2L); (4, I32 100l) ] in
  assert (List.assoc 1 range = Bytes "tes\x00\xff");
  ignore (call "closeFile" [ (4, file) ]);
  let entries = listed (List.assoc 1 (call "listDirectory" [ (2, Bytes directory) ])) in
  assert (names 1 entries = [ "new"; "old" ]);
  (match call "getFileInfo" [ (2, Bytes missing) ] with
  | _ -> assert false
  | exception Dfs_error { code; kind; path; _ } -> assert ((code, kind, path) = (1l, "NotFound", missing)));
  ignore (call "removePath" [ (2, new_id ()); (4, Bytes directory); (5, Bool true) ]);
  ignore (call "closeSession" [])

let () =
  let client = connect Sys.argv.(1) Sys.argv.(2) in
  story_of_2009 client Sys.argv.(3);
  story_of_today client Sys.argv.(3);
  print_endline "OCaml: both generations of calls"
