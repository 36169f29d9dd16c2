(* Whole files by temporary names. Its interface is a part of Strait's. *)

let buffer_bytes = 1024 * 1024

let copy input output =
  let buffer = Bytes.create buffer_bytes in
  let rec go () =
    match input buffer 0 buffer_bytes with
    | 0 -> ()
    | count ->
        output buffer 0 count;
        go ()
  in
  go ()

let taken path = Failure.fail ~path Already_exists "the file exists already; ~overwrite:true replaces it"

(* A link doesn't replace a file, not even one that has just appeared. Some file systems have no links. *)
let move_local ~overwrite temporary target =
  if overwrite then Unix.rename temporary target
  else
    match Unix.link temporary target with
    | () -> Unix.unlink temporary
    | exception Unix.Unix_error (EEXIST, _, _) -> taken target
    | exception Unix.Unix_error _ -> if Sys.file_exists target then taken target else Unix.rename temporary target

let get ?(overwrite = false) session source target =
  if (not overwrite) && Sys.file_exists target then taken target;
  let temporary = Filename.concat (Filename.dirname target) (".strait-get-" ^ Session.random_hex ()) in
  let remove () = try Sys.remove temporary with Sys_error _ -> () in
  let fetch file =
    let channel = open_out_gen [ Open_wronly; Open_creat; Open_excl; Open_binary ] 0o666 temporary in
    let finish () = close_out channel and forget () = close_out_noerr channel in
    Client.guarded () ~after:finish ~failed:forget (fun () -> copy (Reader.input file) (output channel));
    move_local ~overwrite temporary target
  in
  Client.guarded () ~after:ignore ~failed:remove (fun () -> Client.with_reader session source fetch)

(* In a directory the file gets its own name. *)
let put_target session source target =
  match Client.stat_opt session target with
  | Some { is_directory = true; _ } ->
      let separator = if String.ends_with ~suffix:"/" target then "" else "/" in
      let inside = target ^ separator ^ Filename.basename source in
      (inside, Client.stat_opt session inside)
  | found -> (target, found)

let replace_text part ~by text = Str.global_substitute (Str.regexp_string part) (fun _ -> by) text

let put ?(overwrite = false) session source target =
  if Sys.file_exists source && Sys.is_directory source then raise (Sys_error (source ^ ": Is a directory"));
  let target, found = put_target session source target in
  (match found with
  | Some _ when not overwrite -> taken target
  | Some { is_directory = true; _ } -> Failure.fail ~path:target Is_a_directory "the target is a directory"
  | Some _ | None -> ());
  let directory = match String.rindex_opt target '/' with Some at -> String.sub target 0 (at + 1) | None -> "" in
  let temporary = Printf.sprintf "%s.strait-put-%s" directory (Session.random_hex ()) in
  let send channel = Client.with_writer session temporary (fun file -> copy (input channel) (Writer.output file)) in
  let move () =
    let replace = overwrite && List.mem "rename_replace" (Session.store session).capabilities in
    if found <> None && not replace then Client.remove session target;
    Client.rename ~replace session temporary target
  in
  let remove () = Session.tidy session ~changes:true "removePath" [ (4, Bytes temporary) ] in
  let channel = open_in_bin source in
  Fun.protect
    ~finally:(fun () -> close_in_noerr channel)
    (fun () ->
      try
        Client.guarded () ~after:ignore ~failed:remove (fun () ->
            send channel;
            move ())
      with Failure.Error { kind; path; message; retry_safe } when path = Some temporary ->
        (* Nobody knows the temporary name. *)
        Failure.fail ~path:target ~retry_safe kind (replace_text temporary ~by:target message))
