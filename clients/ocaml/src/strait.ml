type kind = Failure.kind =
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

type error = Failure.t = { kind : kind; path : string option; message : string; retry_safe : bool }

exception Error = Failure.Error

let kind_name = Failure.kind_name
let result act = match act () with value -> Result.ok value | exception Error error -> Result.error error

type uri = Uri.t = { host : string; port : int; store : string option; path : string }

let parse_uri = Uri.parse

type t = Session.t
type store = Session.store = { name : string; uri : string; capabilities : string list }

let user = Session.user
let token = Session.token
let store = Session.store
let close = Session.close

module Reader = Reader
module Writer = Writer
include Client
include Transfer
