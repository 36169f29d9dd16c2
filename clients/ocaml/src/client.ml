(* A client's operations on names. Its interface is a part of Strait's. *)

type info = {
  path : string;
  name : string;
  is_directory : bool;
  is_link : bool;
  length : int;
  block_size : int;
  replication : int;
  modified : float;
  accessed : float;
  permission : int;
  owner : string;
  group : string;
}

type block = { offset : int; length : int; hosts : string list }
type checksum = { algorithm : string; value : string }
type status = { capacity : int; used : int; remaining : int }

(* Fields of requests. Those that are absent aren't sent. *)

let bytes number value = (number, Wire.Bytes value)
let bool number value = (number, Wire.Bool value)
let i32 number value = (number, Wire.I32 (Int32.of_int value))
let i64 number value = (number, Wire.I64 (Int64.of_int value))
let i16 number value = (number, Wire.I16 value)
let optional field number value = Option.to_list (Option.map (field number) value)

(* A number that the field can't hold must not become another one. *)
let check_bits bits path name value =
  let limit = 1 lsl (bits - 1) in
  match value with
  | Some value when value < -limit || value >= limit ->
      Failure.fail ~path Invalid_argument (Printf.sprintf "%s %d is out of range" name value)
  | Some _ | None -> ()

let change session path name fields = ignore (Session.call session ~path ~changes:true name (bytes 4 path :: fields))

(* Connect *)

let connect ?store ?user ?password ?token ?(timeout = 120.) address =
  let uri = Uri.parse_address address in
  (match (uri.store, store) with
  | Some one, Some other when one <> other ->
      Failure.fail Invalid_argument (Printf.sprintf "two stores are named: %s and %s" one other)
  | _ -> ());
  if not (timeout > 0.) then Failure.fail Invalid_argument "the timeout isn't above 0 s";
  Session.connect uri { store; user; password; token; timeout }

(* [act value], then [after value]. If one of them raises an exception, [failed value] comes before it goes on. *)
let guarded value ~after ~failed act =
  match
    let result = act value in
    after value;
    result
  with
  | result -> result
  | exception failure ->
      let backtrace = Printexc.get_raw_backtrace () in
      failed value;
      Printexc.raise_with_backtrace failure backtrace

let with_connection ?store ?user ?password ?token ?timeout address act =
  let client = connect ?store ?user ?password ?token ?timeout address in
  guarded client ~after:Session.close ~failed:Session.close act

(* Look *)

let name_of path =
  match String.rindex_opt path '/' with
  | Some slash -> String.sub path (slash + 1) (String.length path - slash - 1)
  | None -> path

let info_of fields =
  let path = Wire.text 1 fields in
  let seconds number = float_of_int (Wire.int number fields) /. 1e3 in
  {
    path;
    name = name_of path;
    is_directory = Wire.int 2 fields = 2;
    is_link = Wire.int 11 fields <> 0;
    length = Wire.int 3 fields;
    block_size = Wire.int 4 fields;
    replication = Wire.int 5 fields;
    modified = seconds 6;
    accessed = seconds 7;
    permission = Wire.int 8 fields;
    owner = Wire.text 9 fields;
    group = Wire.text 10 fields;
  }

let structs number fields =
  List.filter_map (function Wire.Struct fields -> Some fields | _ -> None) (Wire.list number fields)

let stat session path =
  match Wire.fields 1 (Session.call session ~path "getFileInfo" [ bytes 2 path ]) with
  | [] -> Failure.fail ~path Internal "stat: the gateway's reply has no file status (a defect of the gateway)"
  | info -> info_of info

let stat_opt session path =
  match stat session path with
  | info -> Some info
  | exception Failure.Error { kind = Not_found | Not_a_directory; _ } -> None

let exists session path = stat_opt session path <> None

(* A page's entries, all of them the directory's: programs join their names to paths of their own. *)
let entries_of path page =
  let entries = List.map info_of (structs 1 page) in
  let fail why = Failure.fail ~path Internal (Printf.sprintf "list %s: the gateway %s" path why) in
  if entries = [] && List.mem_assoc 2 page then fail "sent an empty page that isn't the last (a defect of the gateway)";
  let names = List.filter (( <> ) "") (String.split_on_char '/' path) in
  let directory = String.concat "" (List.map (( ^ ) "/") names) in
  let is_child entry =
    entry.path = directory ^ "/" ^ entry.name
    && (not (List.mem entry.name [ ""; "."; ".." ]))
    && not (String.contains entry.name '\000')
  in
  let check entry =
    if not (is_child entry) then fail (Printf.sprintf "named %s, which isn't in this directory" entry.path)
  in
  List.iter check entries;
  entries

let iter_directory ?page_entries act session path =
  check_bits 32 path "page_entries" page_entries;
  let request = bytes 2 path :: optional i32 4 page_entries in
  let first = Session.call session ~path "listDirectory" request in
  let incarnation = Session.incarnation session in
  let is_gone () = Session.incarnation session <> incarnation in
  let ended () = Failure.fail ~path ~retry_safe:true Unavailable "its session ended: list the directory again" in
  (* The cursor moves with each answer, so a page after the first is asked for once. *)
  let next cursor =
    match Session.call_once session ~path "listDirectory" ((3, cursor) :: request) with
    | page -> if is_gone () then ended () else page
    | exception Failure.Error { kind; _ } when kind = Unauthenticated || is_gone () -> ended ()
  in
  let cursor = ref (List.assoc_opt 2 first) in
  let forget () = Option.iter (fun cursor -> Session.tidy session "closeFile" [ (4, cursor) ]) !cursor in
  let rec visit page =
    cursor := List.assoc_opt 2 page;
    List.iter act (entries_of path page);
    Option.iter (fun cursor -> visit (next cursor)) !cursor
  in
  guarded () ~after:ignore ~failed:forget (fun () -> visit first)

let list ?page_entries session path =
  let entries = ref [] in
  iter_directory ?page_entries (fun entry -> entries := entry :: !entries) session path;
  List.rev !entries

let locate ?(offset = 0) ?length session path =
  let request = [ bytes 2 path; i64 3 offset ] @ optional i64 4 length in
  let host = function Wire.Bytes host -> Some host | _ -> None in
  let block fields =
    { offset = Wire.int 1 fields; length = Wire.int 2 fields; hosts = List.filter_map host (Wire.list 3 fields) }
  in
  List.map block (structs 1 (Session.call session ~path "getBlockLocations" request))

let checksum session path =
  let reply = Session.call session ~path "getChecksum" [ bytes 2 path ] in
  { algorithm = Wire.text 1 reply; value = Wire.text 2 reply }

let status session =
  let reply = Session.call session "getStoreStatus" [] in
  { capacity = Wire.int 2 reply; used = Wire.int 3 reply; remaining = Wire.int 4 reply }

(* Change *)

let mkdirs ?permission session path =
  check_bits 32 path "permission" permission;
  change session path "makeDirectories" (optional i32 5 permission)

let rename ?(replace = false) session source target =
  change session source "renamePath" [ bytes 5 target; bool 6 replace ]

let remove ?(recursive = false) session path = change session path "removePath" [ bool 5 recursive ]
let truncate session path length = change session path "truncateFile" [ i64 5 length ]

let concat session path sources =
  change session path "concatFiles" [ (5, Wire.List (List.map (fun source -> Wire.Bytes source) sources)) ]

let set_attributes ?permission ?owner ?group ?modified ?accessed ?replication session path =
  check_bits 32 path "permission" permission;
  check_bits 16 path "replication" replication;
  let milliseconds number seconds = (number, Wire.I64 (Int64.of_float (Float.round (seconds *. 1e3)))) in
  change session path "setAttributes"
    (optional i32 5 permission @ optional bytes 6 owner @ optional bytes 7 group
    @ optional milliseconds 8 modified @ optional milliseconds 9 accessed @ optional i16 10 replication)

(* Files *)

let open_reader = Reader.open_path
let with_reader session path act = guarded (open_reader session path) ~after:Reader.close ~failed:Reader.close act

let create ?(overwrite = false) ?permission ?replication ?block_size session path =
  check_bits 32 path "permission" permission;
  check_bits 16 path "replication" replication;
  let options = optional i32 6 permission @ optional i16 7 replication @ optional i64 8 block_size in
  Writer.open_path session "createFile" ([ bytes 4 path; bool 5 overwrite ] @ options) path

let append session path = Writer.open_path session "appendFile" [ bytes 4 path ] path
let write_to file act = guarded file ~after:Writer.close ~failed:Writer.abandon act

let with_writer ?overwrite ?permission ?replication ?block_size session path act =
  write_to (create ?overwrite ?permission ?replication ?block_size session path) act

let with_appender session path act = write_to (append session path) act
let read_file session path = with_reader session path Reader.input_all

let write_file session path text =
  with_writer ~overwrite:true session path (fun file -> Writer.output_string file text)
