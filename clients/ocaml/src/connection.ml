type t = {
  socket : Unix.file_descr;
  address : string;
  process : int;
  is_local : bool;
  mutable sequence : int;
  mutable is_idle : bool; (* no reply is due, not even a part of one *)
}

exception Lost of { message : string; sent : bool }

let is_local connection = connection.is_local
let is_idle connection = connection.is_idle
let close connection = try Unix.close connection.socket with Unix.Unix_error _ -> ()

(* Limits of one system call *)

let rec restarted act = try act () with Unix.Unix_error (EINTR, _, _) -> restarted act
let timed_out () = raise (Unix.Unix_error (ETIMEDOUT, "", ""))

(* Each wait gets what is left, so a gateway that sends a byte at a time doesn't extend the whole.
   0 would be no limit. *)
let limit socket option deadline =
  let left = Deadline.left deadline in
  if left = 0. then timed_out ();
  Unix.setsockopt_float socket option (Float.max left 0.001)

let is_loopback = function
  | Unix.ADDR_UNIX _ -> true
  | ADDR_INET (address, _) ->
      let text = Unix.string_of_inet_addr address in
      text = "::1" || List.exists (fun prefix -> String.starts_with ~prefix text) [ "127."; "::ffff:127." ]

(* Connect *)

let open_socket (found : Unix.addr_info) deadline =
  let socket = Unix.socket ~cloexec:true found.ai_family SOCK_STREAM 0 in
  let connect () =
    limit socket SO_SNDTIMEO deadline;
    try Unix.connect socket found.ai_addr with Unix.Unix_error (EISCONN, _, _) -> ()
  in
  match
    restarted connect;
    Unix.setsockopt socket TCP_NODELAY true
  with
  | () -> socket
  | exception failure ->
      Unix.close socket;
      raise failure

let reason = function
  | Unix.Unix_error ((ETIMEDOUT | EINPROGRESS | EALREADY | EAGAIN), _, _) -> "it doesn't accept the connection in time"
  | Unix.Unix_error (error, _, _) -> Unix.error_message error
  | failure -> raise failure

let connect uri deadline =
  let address = Uri.address uri in
  let lost why = raise (Lost { message = Printf.sprintf "no gateway at %s: %s" address why; sent = false }) in
  let rec attempt why = function
    | [] -> lost why
    | (found : Unix.addr_info) :: others -> (
        let share = Deadline.left deadline /. float_of_int (1 + List.length others) in
        match open_socket found (Deadline.after share) with
        | exception (Unix.Unix_error _ as failure) -> attempt (reason failure) others
        | socket ->
            let is_local = is_loopback found.ai_addr in
            { socket; address; process = Unix.getpid (); is_local; sequence = 0; is_idle = true })
  in
  match Unix.getaddrinfo uri.host (string_of_int uri.port) [ AI_SOCKTYPE SOCK_STREAM ] with
  | [] -> lost (Printf.sprintf "the host name %s has no address; check the name, or the resolver" uri.host)
  | found -> attempt "" found

(* Bytes arrive on an idle connection only if the gateway closed it, or breaks the protocol. *)
let is_silent socket =
  let peek () = Unix.recv socket (Bytes.create 1) 0 1 [ MSG_PEEK ] in
  Unix.set_nonblock socket;
  Fun.protect
    ~finally:(fun () -> Unix.clear_nonblock socket)
    (fun () ->
      match restarted peek with
      | _ -> false
      | exception Unix.Unix_error ((EAGAIN | EWOULDBLOCK), _, _) -> true
      | exception Unix.Unix_error _ -> false)

let is_usable connection =
  connection.is_idle && connection.process = Unix.getpid () && is_silent connection.socket

(* Call *)

(* The system sends SIGPIPE to a program that writes to a closed connection, which would end the program. Only this
   thread is spared it, and only while it sends. *)
let without_sigpipe act =
  let before = Unix.sigprocmask SIG_BLOCK [ Sys.sigpipe ] in
  let restore () =
    if (not (List.mem Sys.sigpipe before)) && List.mem Sys.sigpipe (Unix.sigpending ()) then
      (* To ignore a signal that waits is to drop it. *)
      Sys.set_signal Sys.sigpipe (Sys.signal Sys.sigpipe Signal_ignore);
    ignore (Unix.sigprocmask SIG_SETMASK before)
  in
  Fun.protect ~finally:restore act

let send socket parts deadline =
  let rec send_from at part =
    let write () =
      limit socket SO_SNDTIMEO deadline;
      Unix.single_write_substring socket part at (String.length part - at)
    in
    if at < String.length part then send_from (at + restarted write) part
  in
  without_sigpipe (fun () -> List.iter (send_from 0) parts)

(* Memory is taken for bytes that have arrived, twice over at most: not for what the gateway claims. *)
let first_bytes = 2 * 1024 * 1024

let receive socket length deadline =
  let rec receive_from bytes at =
    let read () =
      limit socket SO_RCVTIMEO deadline;
      Unix.read socket bytes at (Bytes.length bytes - at)
    in
    if at = length then bytes
    else if at = Bytes.length bytes then receive_from (Bytes.extend bytes 0 (min at (length - at))) at
    else
      match restarted read with 0 -> raise End_of_file | count -> receive_from bytes (at + count)
  in
  Bytes.unsafe_to_string (receive_from (Bytes.create (min length first_bytes)) 0)

let exchange connection deadline name arguments =
  let { socket; sequence; _ } = connection in
  send socket (Wire.frame name sequence arguments) deadline;
  let length = Int32.to_int (String.get_int32_be (receive socket 4 deadline) 0) in
  if length < 0 || length > Wire.max_frame then
    raise (Wire.Malformed (Printf.sprintf "a reply of %d bytes" (length land 0xffffffff)));
  Wire.reply (receive socket length deadline) ~name ~sequence

let deadline_field = 15

let call connection ?path deadline name request =
  let request = (deadline_field, Wire.I32 (Int32.of_int (Deadline.left_ms deadline))) :: request in
  let lost why =
    let hint =
      if connection.sequence > 1 then "" else "; is it a gateway that accepts clear text? This client has no TLS"
    in
    let message = Printf.sprintf "the connection to %s broke: %s%s" connection.address why hint in
    raise (Lost { message; sent = true })
  in
  connection.sequence <- connection.sequence + 1;
  connection.is_idle <- false;
  match exchange connection deadline name [ (1, Struct request) ] with
  | result -> (
      connection.is_idle <- true;
      match result with
      | [ (0, Struct reply) ] -> reply
      | [ (1, Struct error) ] -> raise (Failure.Error (Failure.of_fields ?path error))
      | _ -> Failure.fail ?path Internal (Printf.sprintf "%s: the gateway %s answered nothing" name connection.address))
  | exception Wire.Refused why ->
      connection.is_idle <- true;
      Failure.fail ?path Internal (Printf.sprintf "the gateway %s refuses %s: %s" connection.address name why)
  | exception Unix.Unix_error ((ETIMEDOUT | EAGAIN | EWOULDBLOCK), _, _) ->
      let message = Printf.sprintf "%s: the gateway %s gave no answer in time" name connection.address in
      Failure.fail ?path ~retry_safe:true Timed_out message
  | exception Unix.Unix_error (error, _, _) -> lost (Unix.error_message error)
  | exception Wire.Malformed why -> lost why
  | exception End_of_file -> lost "it ended"
