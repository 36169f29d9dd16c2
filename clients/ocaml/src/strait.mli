(** Files of any store behind a Strait gateway.

    {[
      Strait.with_connection "strait://127.0.0.1:9090/" (fun client ->
          Strait.write_file client "/greeting.txt" "hello\n";
          print_string (Strait.read_file client "/greeting.txt"))
    ]}

    Paths are absolute within the store, in UTF-8. Lengths, offsets and positions are in
    bytes, times in seconds since 1970 (UTC), as in {!Unix}. *)

(** {1 Errors} *)

(** The kind of an error; the same kinds in every client language. *)
type kind =
  | Not_found
  | Already_exists
  | Not_a_directory
  | Is_a_directory
  | Not_empty
  | Permission_denied
  | Unauthenticated  (** the login is missing, wrong or expired *)
  | Invalid_argument  (** the request itself is wrong: path, offset, state of a file *)
  | Unsupported  (** the store has no such operation *)
  | Busy  (** somebody else is writing the file *)
  | No_space
  | Timed_out  (** no answer within the time limit *)
  | Unavailable  (** no gateway can be reached, or it can't reach its store *)
  | Corrupt  (** a store's bytes don't match their checksum *)
  | Outcome_unknown  (** a change may have been executed: look before you repeat it *)
  | Internal

type error = {
  kind : kind;
  path : string option;  (** the remote path, or the local one of {!get}; [None] where the error has none *)
  message : string;  (** for people; it names the path *)
  retry_safe : bool;  (** repeating the same request can help, and can't do harm *)
}

exception Error of error
(** What every function here raises, unless it says otherwise. Errors of local files are [Sys_error] and
    [Unix.Unix_error], as usual. *)

val kind_name : kind -> string
(** As in other languages: ["NotFound"]. *)

val result : (unit -> 'a) -> ('a, error) result
(** The function's value, or the {!Error} that it raises. *)

(** {1 Connect} *)

type t
(** A session with a gateway. It has one connection, so a thread has its own session; a call while another thread's is
    in progress fails as [Invalid_argument]. In a forked child, it opens a connection of its own. *)

val connect :
  ?store:string -> ?user:string -> ?password:string -> ?token:string -> ?timeout:float -> string -> t
(** [connect "strait://HOST:PORT/"], or ["HOST:PORT"], opens a session. It uses the gateway's default store, unless
    [store] or a final [/@STORE] of the address names another one. A [token] of an earlier session can take the place of
    [user] and [password]. Without TLS, a password or token goes to a gateway of the same host only: otherwise the error
    is [Unauthenticated]. The [timeout], in seconds, bounds each request as a whole: connecting, all attempts, and the
    complete reply. By default, it is 120. *)

val close : t -> unit
(** Ends the session. Close its files first. It never fails. *)

val with_connection :
  ?store:string -> ?user:string -> ?password:string -> ?token:string -> ?timeout:float -> string -> (t -> 'a) -> 'a
(** Connects, runs the function, and closes the session, also after an exception. *)

type store = {
  name : string;
  uri : string;  (** empty, unless the user may know it *)
  capabilities : string list;  (** for example ["append"]: what the store can do *)
}

val store : t -> store
val user : t -> string

val token : t -> string
(** It stands for the login until it expires. Keep it secret. *)

type uri = {
  host : string;  (** without brackets *)
  port : int;  (** 9090 if the URI names none *)
  store : string option;  (** [None]: the gateway's default store *)
  path : string;  (** begins with [/] *)
}

val parse_uri : string -> uri
(** The parts of [strait://HOST:PORT/@STORE/PATH]. Nothing is decoded. A first component that begins with [@@] is a
    directory whose name has one [@] less. *)

(** {1 Read} *)

(** An open file to read, with the names of {!In_channel}. One request fetches up to 1 MiB, from which small reads are
    served. *)
module Reader : sig
  type t

  val input : t -> bytes -> int -> int -> int
  (** [input file buffer offset length] reads up to [length] bytes into the buffer, at [offset]. It is 0 only at the end
      of the file, or if [length] is.
      @raise Stdlib.Invalid_argument if the buffer has no such range. *)

  val input_line : t -> string option
  (** Without its end. [None] at the end of the file. *)

  val input_all : t -> string
  (** The rest of the file. *)

  val pread : t -> offset:int -> int -> string
  (** [pread file ~offset length] is the bytes from there; fewer at the end of the file. It fetches exactly these, and
      the position stays. *)

  val seek : t -> int -> unit
  (** A position behind the end is allowed: nothing can be read there. *)

  val pos : t -> int

  val length : t -> int
  (** When the file was opened. *)

  val close : t -> unit
  (** It never fails, and may be repeated. *)
end

val open_reader : t -> string -> Reader.t
val with_reader : t -> string -> (Reader.t -> 'a) -> 'a
(** Opens the file, runs the function, and closes the file, also after an exception. *)

val read_file : t -> string -> string
(** All bytes of a file. *)

(** {1 Write} *)

(** An open file to write at its end, with the names of {!Out_channel}. It collects up to 1 MiB for one request.

    After [No_space] and [Unavailable], a file of Kadoop is still open. It keeps the bytes that the gateway hasn't
    taken, and sends them first. After any other error it is over: each later call repeats the error. *)
module Writer : sig
  type t

  val output : t -> bytes -> int -> int -> unit
  (** [output file buffer offset length] writes that range of the buffer. One of up to 1 MiB that fails has taken
      nothing; {!pos} tells what a longer one has taken.
      @raise Stdlib.Invalid_argument if the buffer has no such range. *)

  val output_substring : t -> string -> int -> int -> unit
  val output_string : t -> string -> unit

  val flush : t -> unit
  (** Makes the written bytes visible to readers that open the file afterwards. In object stores it promises nothing. *)

  val sync : t -> unit
  (** Puts the written bytes on stable storage. In object stores it promises nothing. *)

  val pos : t -> int
  (** The file's length, with all bytes written here. *)

  val close : t -> unit
  (** Puts all bytes on stable storage (except in HDFS), and closes the file. In Kadoop, it may be repeated after
      [No_space] and [Unavailable]. *)

  val abandon : t -> unit
  (** Ends the file. Flushed bytes stay; other bytes may be lost. It never fails. *)
end

val create :
  ?overwrite:bool -> ?permission:int -> ?replication:int -> ?block_size:int -> t -> string -> Writer.t
(** Makes a file, and its missing parents. An existing file is an error without [~overwrite:true]. *)

val append : t -> string -> Writer.t
(** Opens an existing file to continue at its end. *)

val with_writer :
  ?overwrite:bool ->
  ?permission:int ->
  ?replication:int ->
  ?block_size:int ->
  t ->
  string ->
  (Writer.t -> 'a) ->
  'a
(** {!create}, the function, and {!Writer.close}. After an exception of either, it abandons the file. *)

val with_appender : t -> string -> (Writer.t -> 'a) -> 'a
(** {!with_writer} for {!append}. *)

val write_file : t -> string -> string -> unit
(** [write_file client path bytes] makes or replaces a file. *)

(** {1 Look} *)

type info = {
  path : string;
  name : string;  (** the path's last component *)
  is_directory : bool;
  is_link : bool;  (** a symbolic link; all else is of what it leads to. Only listings tell it *)
  length : int;
  block_size : int;
  replication : int;
  modified : float;
  accessed : float;
  permission : int;  (** bits, [0o7777] at most *)
  owner : string;
  group : string;
}

val stat : t -> string -> info

val stat_opt : t -> string -> info option
(** [None] if nothing is there. *)

val exists : t -> string -> bool

val list : ?page_entries:int -> t -> string -> info list
(** A directory's entries, in the store's order. *)

val iter_directory : ?page_entries:int -> (info -> unit) -> t -> string -> unit
(** Calls the function for each entry. It asks for the entries page by page, so the directory may be large. *)

type block = { offset : int; length : int; hosts : string list }

val locate : ?offset:int -> ?length:int -> t -> string -> block list
(** The blocks that hold a range of a file: from its beginning, and to its end, by default. *)

type checksum = { algorithm : string; value : string  (** bytes *) }

val checksum : t -> string -> checksum
(** The store's own checksum of a file. Two are comparable under the same algorithm. *)

type status = { capacity : int; used : int; remaining : int }

val status : t -> status
(** Of the whole store, in bytes. *)

(** {1 Change} *)

val mkdirs : ?permission:int -> t -> string -> unit
(** Makes a directory, and its missing parents. An existing one is a success. *)

val rename : ?replace:bool -> t -> string -> string -> unit
(** [rename client source target]; with [~replace:true], it replaces a file at the target. *)

val remove : ?recursive:bool -> t -> string -> unit
(** Removes a file or an empty directory; with [~recursive:true], also all that is in it. *)

val truncate : t -> string -> int -> unit
(** Cuts a closed file to this many bytes. *)

val concat : t -> string -> string list -> unit
(** [concat client path sources] moves the sources' bytes, in order, to the end of a closed file, in one step. *)

val set_attributes :
  ?permission:int ->
  ?owner:string ->
  ?group:string ->
  ?modified:float ->
  ?accessed:float ->
  ?replication:int ->
  t ->
  string ->
  unit
(** Those that aren't given stay. *)

(** {1 Copy} *)

val get : ?overwrite:bool -> t -> string -> string -> unit
(** [get client remote local] copies a file to a local one, which appears, or is replaced, only when it is complete. An
    existing one is an error without [~overwrite:true]. *)

val put : ?overwrite:bool -> t -> string -> string -> unit
(** [put client local remote] copies a local file to a remote one, which appears, or is replaced, only when it is
    complete. If the target is a directory, the copy goes into it, under the local file's name. *)
