(** A login, its connection, and the one place that retries. States and times are those of [docs/client-protocol.md]. *)

type options = {
  store : string option;
  user : string option;
  password : string option;
  token : string option;
  timeout : float;  (** of a request as a whole, in seconds *)
}

type store = { name : string; uri : string; capabilities : string list }
type t

val connect : Uri.t -> options -> t

val call : t -> ?path:string -> ?changes:bool -> string -> Wire.fields -> Wire.fields
(** [call session ?path ?changes name request] is the reply. A request that [changes] something gets an id, the same in
    all its attempts. *)

val call_once : t -> ?path:string -> string -> Wire.fields -> Wire.fields
(** As {!call}, but sends the request once, as it stands. *)

val tidy : t -> ?changes:bool -> string -> Wire.fields -> unit
(** A request that only cleans up: it never fails, and gets little time from a gateway that was silent. *)

val close : t -> unit
val user : t -> string
val token : t -> string
val store : t -> store

val incarnation : t -> int64
(** If it was another one when a handle was opened, the handle is gone. *)

val max_chunk_bytes : t -> int
(** Most bytes of one [readRange] or [appendData]. *)

val random_hex : unit -> string
(** 32 digits, for a name that nobody else takes. *)
