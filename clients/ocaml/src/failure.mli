(** Errors by kind. {!Strait} has what programs see of them. *)

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

val kind_name : kind -> string
(** As the interface spells it: ["NotFound"]. *)

val fail : ?path:string -> ?retry_safe:bool -> kind -> string -> 'a
(** Raises {!Error}; the message begins with the path, unless it has it already. *)

val of_fields : ?path:string -> Wire.fields -> t
(** Of a [DfsError], with the request's path if it has none. A code of a newer gateway is [Internal]. *)

val contains : string -> string -> bool
(** Whether the first text contains the second one. *)
