(* stream_file read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for OCaml. *)

let piece_bytes = 1 lsl 20

let read client path mib =
  Strait.with_reader client path (fun file ->
      let piece = Bytes.create piece_bytes in
      let rec count bytes =
        match Strait.Reader.input file piece 0 piece_bytes with 0 -> bytes | taken -> count (bytes + taken)
      in
      let bytes = count 0 in
      if bytes <> mib lsl 20 then failwith (Printf.sprintf "another length: %d" bytes))

let write client path mib =
  Strait.with_writer client path (fun file ->
      let piece = Bytes.create piece_bytes in
      for _ = 1 to mib do
        Strait.Writer.output file piece 0 piece_bytes
      done)

let () =
  Strait.with_connection Sys.argv.(2) (fun client ->
      print_endline "ready";
      ignore (read_line ());
      (if Sys.argv.(1) = "read" then read else write) client Sys.argv.(3) (int_of_string Sys.argv.(4));
      print_endline "done")
