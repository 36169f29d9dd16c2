(** Thrift's binary protocol, strict: messages of [idl/dfs.thrift] as fields by number, so no generated code is needed.
    It depends on nothing else, and can be copied. *)

type value =
  | Bool of bool
  | I8 of int
  | I16 of int
  | I32 of int32
  | I64 of int64
  | Double of float
  | Bytes of string  (** also a string, in whatever encoding *)
  | Struct of fields
  | List of value list  (** also a set; a map is a list of keys and values in turn *)

and fields = (int * value) list
(** Each field of a struct by its number. *)

exception Malformed of string
(** The bytes aren't a message of the protocol. *)

exception Refused of string
(** The other end doesn't know the method, or can't read its arguments. *)

val max_frame : int
(** Most bytes of a reply. *)

val frame : string -> int -> fields -> string list
(** [frame name sequence arguments] is a call in its frame: the body's length in 4 bytes, then the body. It is in parts,
    so that a file's bytes aren't copied. *)

val reply : string -> name:string -> sequence:int -> fields
(** The fields of the reply in a frame's body: 0 is the result, another one an exception that the interface names.
    Every length is compared with what is left of the body before memory is taken for it.
    @raise Malformed if it isn't a reply to this call, or doesn't end with the body.
    @raise Refused if it is an exception of Thrift's own. *)

(** {1 Fields}

    A field of another type than expected counts as absent, as in Thrift's own decoders. *)

val int : int -> fields -> int
(** A boolean or an integer; 0 if it is absent. One of 64 bits that isn't an [int] becomes the nearest. *)

val int64 : int -> fields -> int64
(** 0 if it is absent. *)

val bytes : int -> fields -> string option
val text : int -> fields -> string  (** Empty if it is absent. *)

val fields : int -> fields -> fields
val list : int -> fields -> value list
