(** The parts of [strait://HOST:PORT/@STORE/PATH]. Nothing is decoded. *)

type t = {
  host : string;  (** without brackets *)
  port : int;  (** 9090 if the URI names none *)
  store : string option;  (** [None]: the gateway's default store *)
  path : string;  (** begins with [/] *)
}

val parse : string -> t
(** A first component [@NAME] names a store; one that begins with [@@] is a directory with one [@] less. Raises the
    library's error, of the kind [Invalid_argument]. *)

val parse_address : string -> t
(** As {!parse}, also without the scheme, and without a path. *)

val address : t -> string
(** [HOST:PORT], with brackets where they belong. *)
