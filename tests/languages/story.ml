(* Calls of both generations of the interface. Thrift's runtime for OCaml is older than today's immutable strings: the
   codec of the client's library replaces it (clients/ocaml/src/wire.ml). Fields have the numbers of idl/dfs.thrift.
   ocamlopt unix.cmxa str.cmxa wire.mli wire.ml story.ml -o story; ./story HOST PORT DIRECTORY *)

open Wire

exception Dfs_service_io_exception of string

exception Dfs_error of { code : int; kind : string; message : string; path : string }

(* Calls *)

type client = { input : in_channel; output : out_channel }

let connect host port =
  match Unix.getaddrinfo host port [ Unix.AI_SOCKTYPE Unix.SOCK_STREAM ] with
  | [] -> failwith ("no address of " ^ host)
  | { Unix.ai_addr; _ } :: _ ->
      let input, output = Unix.open_connection ai_addr in
      { input; output }

(* The method's result, or the fields of the exception that its interface names. One call at a time, so all have the
   sequence number 0. *)
let exchange client name arguments =
  List.iter (output_string client.output) (frame name 0 arguments);
  flush client.output;
  let size = input_binary_int client.input in
  if size < 0 || size > max_frame then failwith (Printf.sprintf "a frame of %d bytes" size);
  match reply (really_input_string client.input size) ~name ~sequence:0 with
  | [ (0, value) ] -> Ok value
  | [ (_, Struct failure) ] -> Error failure
  | _ -> failwith (name ^ ": neither a result nor an exception")

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
      raise (Dfs_error { code = int 1 failure; kind = text 2 failure; message = text 3 failure; path = text 4 failure })

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
  | exception Dfs_error { code; kind; path; _ } -> assert ((code, kind, path) = (1, "NotFound", missing)));
  ignore (call "removePath" [ (2, new_id ()); (4, Bytes directory); (5, Bool true) ]);
  ignore (call "closeSession" [])

let () =
  let client = connect Sys.argv.(1) Sys.argv.(2) in
  story_of_2009 client Sys.argv.(3);
  story_of_today client Sys.argv.(3);
  print_endline "OCaml: both generations of calls"
