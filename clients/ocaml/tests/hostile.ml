(* The codec, and bytes of a hostile gateway: each is an error, and takes memory only for bytes that are there. *)

open Wire

let head = "\x80\x01\x00\x02\x00\x00\x00\x04stat\x00\x00\x00\x07"
let parse body = reply body ~name:"stat" ~sequence:7

let is_malformed name body =
  match parse body with
  | _ -> failwith (name ^ " was accepted")
  | exception Malformed _ -> ()

(* A frame of a call, turned into the reply to it. *)
let echoed fields =
  let frame = Bytes.of_string (String.concat "" (frame "stat" 7 fields)) in
  assert (Bytes.get_int32_be frame 0 = Int32.of_int (Bytes.length frame - 4));
  Bytes.set_int8 frame 7 2;
  parse (Bytes.sub_string frame 4 (Bytes.length frame - 4))

let round_trip () =
  let fields =
    [
      (1, Bool true);
      (2, I8 (-1));
      (3, I16 (-32768));
      (4, I32 Int32.min_int);
      (5, I64 Int64.max_int);
      (6, Double 1.5);
      (7, Bytes "\x00\xff");
      (8, Struct [ (-1, Struct []) ]);
      (9, List [ I64 1L; I64 2L ]);
    ]
  in
  assert (echoed fields = fields);
  assert (int 1 fields = 1 && int 2 fields = -1 && int 5 fields = max_int && int 7 fields = 0 && int 99 fields = 0);
  assert (text 7 fields = "\x00\xff" && text 1 fields = "" && bytes 99 fields = None)

let wrong_heads () =
  is_malformed "no head" "";
  is_malformed "another protocol" ("HTTP" ^ head);
  is_malformed "a call" ("\x80\x01\x00\x01\x00\x00\x00\x04stat\x00\x00\x00\x07\x00");
  is_malformed "another method" "\x80\x01\x00\x02\x00\x00\x00\x04list\x00\x00\x00\x07\x00";
  is_malformed "another call's number" "\x80\x01\x00\x02\x00\x00\x00\x04stat\x00\x00\x00\x08\x00";
  is_malformed "a name of 2 GiB" "\x80\x01\x00\x02\x7f\xff\xff\xffstat";
  match parse "\x80\x01\x00\x03\x00\x00\x00\x04stat\x00\x00\x00\x07\x0b\x00\x01\x00\x00\x00\x02no\x00" with
  | _ -> failwith "an exception was accepted"
  | exception Refused why -> assert (why = "no")

let wrong_lengths () =
  is_malformed "no end" head;
  is_malformed "bytes behind the end" (head ^ "\x00\x00");
  is_malformed "half a field" (head ^ "\x0a\x00");
  is_malformed "half a number" (head ^ "\x0a\x00\x01\x00\x00");
  is_malformed "bytes of 2 GiB" (head ^ "\x0b\x00\x01\x7f\xff\xff\xff\x00");
  is_malformed "bytes of -1" (head ^ "\x0b\x00\x01\xff\xff\xff\xff\x00");
  is_malformed "a list of 2 GiB" (head ^ "\x0f\x00\x01\x0a\x7f\xff\xff\xff\x00");
  is_malformed "a list of -1" (head ^ "\x0f\x00\x01\x0a\xff\xff\xff\xff\x00");
  is_malformed "a map of 2 GiB" (head ^ "\x0d\x00\x01\x0a\x0a\x7f\xff\xff\xff\x00");
  is_malformed "an unknown type" (head ^ "\x07\x00\x01\x00");
  is_malformed "a type above 127" (head ^ "\xff\x00\x01\x00")

let repeat count text = String.concat "" (List.init count (fun _ -> text))

let list_of kind count item =
  let length = Bytes.create 4 in
  Bytes.set_int32_be length 0 (Int32.of_int count);
  head ^ "\x0f\x00\x01" ^ kind ^ Bytes.to_string length ^ repeat count item ^ "\x00"

let much_of_little () =
  is_malformed "structs in structs" (head ^ repeat 1_000_000 "\x0c\x00\x01");
  is_malformed "lists in lists" (head ^ "\x0f\x00\x01" ^ repeat 1_000_000 "\x0f\x00\x00\x00\x01");
  is_malformed "many empty structs" (list_of "\x0c" (2 lsl 20) "\x00");
  (* Many, but allowed: no loop uses up the stack. *)
  assert (List.length (parse (head ^ repeat 1_000_000 "\x02\x00\x01\x01" ^ "\x00")) = 1_000_000);
  assert (List.length (list 1 (parse (list_of "\x03" 1_000_000 "\x01"))) = 1_000_000)

(* Each prefix, and each change of a byte, is an error or a value. *)
let mutations () =
  let entry = "\x0b\x00\x01\x00\x00\x00\x01a\x0a\x00\x03\x00\x00\x00\x00\x00\x00\x00\x05\x00" in
  let body = head ^ "\x0c\x00\x00\x0f\x00\x01\x0c\x00\x00\x00\x01" ^ entry ^ "\x00\x00" in
  ignore (parse body);
  let try_one body = match parse body with _ -> () | exception (Malformed _ | Refused _) -> () in
  for at = 0 to String.length body - 1 do
    is_malformed "a prefix" (String.sub body 0 at);
    for byte = 0 to 255 do
      try_one (String.mapi (fun index old -> if index = at then Char.chr byte else old) body)
    done
  done

let () =
  round_trip ();
  wrong_heads ();
  wrong_lengths ();
  much_of_little ();
  mutations ()
