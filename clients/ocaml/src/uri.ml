type t = { host : string; port : int; store : string option; path : string }

let scheme = "strait://"
let default_port = 9090
let max_port = 65535
let max_name_bytes = 255 (* as POSIX's NAME_MAX *)

let wrong format =
  let fail why = Failure.fail Invalid_argument ("not the address of a gateway, strait://host:port/@store: " ^ why) in
  Printf.ksprintf fail format

let after prefix text =
  let length = String.length prefix in
  String.sub text length (String.length text - length)

(* Splits before the character. *)
let split_at character text =
  match String.index_opt text character with
  | None -> (text, "")
  | Some at -> (String.sub text 0 at, String.sub text at (String.length text - at))

let parse_authority text =
  let wrong () = wrong "%S is no HOST:PORT" text in
  if String.contains text '@' then
    Failure.fail Invalid_argument "an address names no user: give user and password to the function that connects";
  let host, rest =
    if String.starts_with ~prefix:"[" text then
      match split_at ']' (after "[" text) with _, "" -> wrong () | host, rest -> (host, after "]" rest)
    else split_at ':' text
  in
  let is_of_host = function '\000' .. ' ' | '\127' | '?' | '#' | '[' | ']' -> false | _ -> true in
  if host = "" || not (String.for_all is_of_host host) then wrong ();
  match rest with
  | "" | ":" -> (host, default_port)
  | _ -> (
      let digits = if rest.[0] = ':' then after ":" rest else wrong () in
      if not (String.for_all (function '0' .. '9' -> true | _ -> false) digits) then wrong ();
      match int_of_string_opt digits with
      | Some port when port >= 1 && port <= max_port -> (host, port)
      | Some _ | None -> wrong ())

let check text name =
  if name = "." || name = ".." || String.contains name '\000' || String.length name > max_name_bytes then
    wrong "%S has a name that is . or .., holds a NUL byte, or is longer than %d bytes" text max_name_bytes

let parse text =
  (* With an @, it may hold a password. *)
  if not (String.starts_with ~prefix:scheme text) then
    wrong "%s doesn't begin with %s" (if String.contains text '@' then "it" else Printf.sprintf "%S" text) scheme;
  let authority, rest = split_at '/' (after scheme text) in
  let host, port = parse_authority authority in
  let store, names =
    match List.filter (( <> ) "") (String.split_on_char '/' rest) with
    | "@" :: _ -> wrong "%S: a store's name follows the @, as in /@lab; a directory called @ is /@@" text
    | first :: others when String.starts_with ~prefix:"@@" first -> (None, after "@" first :: others)
    | first :: others when first.[0] = '@' -> (Some (after "@" first), others)
    | names -> (None, names)
  in
  List.iter (check text) (Option.to_list store @ names);
  { host; port; store; path = "/" ^ String.concat "/" names }

let parse_address text =
  let uri = parse (if Failure.contains text "://" then text else scheme ^ text) in
  if uri.path <> "/" then wrong "%S has a path; an address ends with the gateway or its store" text;
  uri

let address { host; port; _ } = Printf.sprintf (if String.contains host ':' then "[%s]:%d" else "%s:%d") host port
