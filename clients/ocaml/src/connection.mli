(** A socket to a gateway, for one caller at a time. *)

type t

exception Lost of { message : string; sent : bool }
(** The connection broke. If [sent], the request may have arrived. *)

val connect : Uri.t -> Deadline.t -> t
(** If the name has several addresses, each gets a share of the time.
    @raise Lost if none accepts the connection. *)

val is_local : t -> bool
(** Whether the gateway is on this machine. *)

val is_idle : t -> bool
(** Whether no reply is due. *)

val is_usable : t -> bool
(** Whether it can carry another request: it is idle, the gateway hasn't closed it, and it isn't of this process's
    parent. *)

val call : t -> ?path:string -> Deadline.t -> string -> Wire.fields -> Wire.fields
(** [call connection ?path deadline name request] is the reply's fields.
    @raise Lost if the connection breaks.
    @raise Failure.Error if the gateway answers so, or the deadline passes. *)

val close : t -> unit
