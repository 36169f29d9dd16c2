(** When a request is given up, with all that belongs to it. Times are in seconds. *)

type t

val after : float -> t
val earlier : t -> t -> t

val left : t -> float
(** 0 or more. *)

val left_ms : t -> int
(** In milliseconds, 1 or more, and at most what a field of 32 bits holds. *)
