type kind =
  | Not_found
  | Already_exists
  | Not_a_directory
  | Is_a_directory
  | Not_empty
  | Permission_denied
  | Unauthenticated
  | Invalid_argument
  | Unsupported
  | Busy
  | No_space
  | Timed_out
  | Unavailable
  | Corrupt
  | Outcome_unknown
  | Internal

type t = { kind : kind; path : string option; message : string; retry_safe : bool }

exception Error of t

(* With the codes of idl/dfs.thrift, which begin at 1, in order. *)
let kinds =
  [|
    (Not_found, "NotFound");
    (Already_exists, "AlreadyExists");
    (Not_a_directory, "NotADirectory");
    (Is_a_directory, "IsADirectory");
    (Not_empty, "NotEmpty");
    (Permission_denied, "PermissionDenied");
    (Unauthenticated, "Unauthenticated");
    (Invalid_argument, "InvalidArgument");
    (Unsupported, "Unsupported");
    (Busy, "Busy");
    (No_space, "NoSpace");
    (Timed_out, "TimedOut");
    (Unavailable, "Unavailable");
    (Corrupt, "Corrupt");
    (Outcome_unknown, "OutcomeUnknown");
    (Internal, "Internal");
  |]

let kind_name kind = List.assoc kind (Array.to_list kinds)

let contains text part =
  match Str.search_forward (Str.regexp_string part) text 0 with _ -> true | exception Stdlib.Not_found -> false

let make path kind message retry_safe =
  let named = match path with Some path when not (contains message path) -> path ^ ": " ^ message | _ -> message in
  { kind; path; message = named; retry_safe }

let fail ?path ?(retry_safe = false) kind message = raise (Error (make path kind message retry_safe))

let of_fields ?path fields =
  let code = Wire.int 1 fields in
  let kind = if code >= 1 && code <= Array.length kinds then fst kinds.(code - 1) else Internal in
  let path = match Wire.text 4 fields with "" -> path | told -> Some told in
  make path kind (Wire.text 3 fields) (Wire.int 5 fields <> 0)

let () =
  Printexc.register_printer (function
    | Error { kind; message; _ } -> Some (Printf.sprintf "Strait.Error(%s): %s" (kind_name kind) message)
    | _ -> None)
