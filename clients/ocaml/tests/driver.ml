(* Answers the requests of tests/languages/driver.py. It is compiled with the library's sources. *)

type file = Reading of Strait.Reader.t | Writing of Strait.Writer.t

let clients : (string, Strait.t * string) Hashtbl.t = Hashtbl.create 8
let sessions : (string, Session.t) Hashtbl.t = Hashtbl.create 8
let files : (string, file) Hashtbl.t = Hashtbl.create 8
let current = ref ""
let client () = fst (Hashtbl.find clients !current)

(* Arguments: an empty one stands for none. *)

let number = int_of_string
let optional convert = function "" -> None | text -> Some (convert text)
let digits = string_of_int
let milliseconds seconds = Printf.sprintf "%.0f" (seconds *. 1e3)
let seconds text = float_of_string text /. 1e3

let reading name =
  match Hashtbl.find files name with Reading file -> file | Writing _ -> failwith (name ^ " isn't open to read")

let writing name =
  match Hashtbl.find files name with Writing file -> file | Reading _ -> failwith (name ^ " isn't open to write")

let open_file path mode permission =
  let permission = optional number permission in
  match mode with
  | "read" -> Reading (Strait.open_reader (client ()) path)
  | "append" -> Writing (Strait.append (client ()) path)
  | "create" -> Writing (Strait.create ?permission (client ()) path)
  | "overwrite" -> Writing (Strait.create ~overwrite:true ?permission (client ()) path)
  | other -> failwith other

let read file length =
  if length < 0 then Strait.Reader.input_all file
  else
    let buffer = Bytes.create length in
    let rec fill at =
      match Strait.Reader.input file buffer at (length - at) with
      | 0 -> Bytes.sub_string buffer 0 at
      | count -> fill (at + count)
    in
    fill 0

(* Requests as they stand go over a connection of their own to the same session. *)

let session name =
  match Hashtbl.find_opt sessions name with
  | Some session -> session
  | None ->
      let client, address = Hashtbl.find clients name in
      let token = Some (Strait.token client) in
      let options = { Session.store = None; user = None; password = None; token; timeout = 120. } in
      let session = Session.connect (Uri.parse_address address) options in
      Hashtbl.add sessions name session;
      session

let rec fields = function
  | [] -> []
  | id :: kind :: value :: others ->
      let value =
        match kind with
        | "2" -> Wire.Bool (value = "1")
        | "6" -> I16 (number value)
        | "8" -> I32 (Int32.of_string value)
        | "10" -> I64 (Int64.of_string value)
        | "11" -> Bytes value
        | other -> failwith ("a field of type " ^ other)
      in
      (number id, value) :: fields others
  | _ -> failwith "half a field"

let shown (id, value) =
  match value with
  | Wire.Bool flag -> [ digits id; digits (Bool.to_int flag) ]
  | I8 value | I16 value -> [ digits id; digits value ]
  | I32 value -> [ digits id; Int32.to_string value ]
  | I64 value -> [ digits id; Int64.to_string value ]
  | Bytes value -> [ digits id; value ]
  | Double _ | Struct _ | List _ -> []

let disconnect name =
  Strait.close (fst (Hashtbl.find clients name));
  Option.iter Session.close (Hashtbl.find_opt sessions name);
  Hashtbl.remove clients name;
  Hashtbl.remove sessions name

let done_ () = []

let answer = function
  | [ "connect"; name; address; timeout ] ->
      let client = Strait.connect ~timeout:(seconds timeout) address in
      Hashtbl.replace clients name (client, address);
      current := name;
      [ String.concat "," (Strait.store client).capabilities ]
  | [ "use"; name ] -> done_ (current := name)
  | [ "disconnect"; name ] -> done_ (disconnect name)
  | [ "open"; name; path; mode; permission ] -> done_ (Hashtbl.replace files name (open_file path mode permission))
  | [ "read"; name; length ] -> [ read (reading name) (number length) ]
  | [ "pread"; name; offset; length ] -> [ Strait.Reader.pread (reading name) ~offset:(number offset) (number length) ]
  | [ "write"; name; bytes ] -> done_ (Strait.Writer.output_string (writing name) bytes)
  | [ "position"; name ] -> [ digits (Strait.Writer.pos (writing name)) ]
  | [ "flush"; name ] -> done_ (Strait.Writer.flush (writing name))
  | [ "sync"; name ] -> done_ (Strait.Writer.sync (writing name))
  | [ "close"; name ] ->
      (match Hashtbl.find files name with
      | Reading file -> Strait.Reader.close file
      | Writing file -> Strait.Writer.close file);
      done_ (Hashtbl.remove files name)
  | [ "stat"; path ] ->
      let info = Strait.stat (client ()) path in
      [
        (if info.is_directory then "directory" else "file");
        digits info.length;
        digits info.permission;
        digits info.replication;
        milliseconds info.modified;
        milliseconds info.accessed;
      ]
  | [ "exists"; path ] -> [ digits (Bool.to_int (Strait.exists (client ()) path)) ]
  | [ "list"; path; page_entries ] ->
      let page_entries = optional number page_entries in
      List.map (fun (entry : Strait.info) -> entry.name) (Strait.list ?page_entries (client ()) path)
  | [ "mkdirs"; path; permission ] -> done_ (Strait.mkdirs ?permission:(optional number permission) (client ()) path)
  | [ "rename"; source; target; replace ] -> done_ (Strait.rename ~replace:(replace = "1") (client ()) source target)
  | [ "remove"; path; recursive ] -> done_ (Strait.remove ~recursive:(recursive = "1") (client ()) path)
  | [ "attributes"; path; permission; replication; modified; accessed ] ->
      let permission = optional number permission and replication = optional number replication in
      let modified = optional seconds modified and accessed = optional seconds accessed in
      done_ (Strait.set_attributes ?permission ?replication ?modified ?accessed (client ()) path)
  | [ "truncate"; path; length ] -> done_ (Strait.truncate (client ()) path (number length))
  | "concat" :: path :: sources -> done_ (Strait.concat (client ()) path sources)
  | [ "put"; source; target; overwrite ] -> done_ (Strait.put ~overwrite:(overwrite = "1") (client ()) source target)
  | [ "locate"; path; offset; length ] ->
      let blocks = Strait.locate ~offset:(number offset) ?length:(optional number length) (client ()) path in
      let parts (block : Strait.block) = [ block.offset; block.length; List.length block.hosts ] in
      List.map digits (List.concat_map parts blocks)
  | [ "checksum"; path ] ->
      let { Strait.algorithm; value } = Strait.checksum (client ()) path in
      [ algorithm; value ]
  | [ "status" ] ->
      let { Strait.capacity; used; remaining } = Strait.status (client ()) in
      [ digits capacity; digits used; digits remaining ]
  | [ "uri"; text ] ->
      let uri = Strait.parse_uri text in
      [ uri.host; digits uri.port; Option.value uri.store ~default:""; uri.path ]
  | "request" :: name :: method_name :: request ->
      List.concat_map shown (Session.call_once (session name) method_name (fields request))
  | operation :: _ -> failwith ("no operation " ^ operation)
  | [] -> failwith "no operation"

(* Messages: the number of parts, then each part's length and bytes. *)

let read_parts () =
  let part _ = really_input_string stdin (input_binary_int stdin) in
  List.init (input_binary_int stdin) part

let write_parts parts =
  output_binary_int stdout (List.length parts);
  let write part =
    output_binary_int stdout (String.length part);
    output_string stdout part
  in
  List.iter write parts;
  flush stdout

let rec serve () =
  match read_parts () with
  | exception End_of_file -> Hashtbl.iter (fun _ (client, _) -> Strait.close client) clients
  | parts ->
      write_parts
        (match answer parts with
        | results -> "ok" :: results
        | exception (Strait.Error { kind; path; message; _ } as failure) ->
            let native = List.hd (String.split_on_char ':' (Printexc.to_string failure)) in
            [ "error"; Strait.kind_name kind; Option.value path ~default:""; message; native ]);
      serve ()

let () =
  set_binary_mode_in stdin true;
  set_binary_mode_out stdout true;
  serve ()
