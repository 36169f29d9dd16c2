type value =
  | Bool of bool
  | I8 of int
  | I16 of int
  | I32 of int32
  | I64 of int64
  | Double of float
  | Bytes of string
  | Struct of fields
  | List of value list

and fields = (int * value) list

exception Malformed of string
exception Refused of string

(* As the gateway's own limit. *)
let max_frame = 16 * 1024 * 1024

(* No message has more than 5 levels: a hostile one doesn't use up the stack. *)
let max_depth = 16

(* A field of a few bytes takes up to 11 words of memory. No page of a listing has so many values. *)
let max_values = 1024 * 1024
let version = 0x8001
let call_type, reply_type, exception_type = (1, 2, 3)

(* Values to bytes *)

let tag = function
  | Bool _ -> 2
  | I8 _ -> 3
  | Double _ -> 4
  | I16 _ -> 6
  | I32 _ -> 8
  | I64 _ -> 10
  | Bytes _ -> 11
  | Struct _ -> 12
  | List _ -> 15

(* Parts of a message, the latest first, and the bytes behind them. *)
type output = { mutable parts : string list; buffer : Buffer.t }

(* A shorter text is copied. *)
let own_part_bytes = 16 * 1024
let put_length output length = Buffer.add_int32_be output.buffer (Int32.of_int length)

let end_part output =
  output.parts <- Buffer.contents output.buffer :: output.parts;
  Buffer.clear output.buffer

let rec put output = function
  | Bool flag -> Buffer.add_int8 output.buffer (Bool.to_int flag)
  | I8 number -> Buffer.add_int8 output.buffer number
  | I16 number -> Buffer.add_int16_be output.buffer number
  | I32 number -> Buffer.add_int32_be output.buffer number
  | I64 number -> Buffer.add_int64_be output.buffer number
  | Double number -> Buffer.add_int64_be output.buffer (Int64.bits_of_float number)
  | Bytes text when String.length text < own_part_bytes ->
      put_length output (String.length text);
      Buffer.add_string output.buffer text
  | Bytes text ->
      put_length output (String.length text);
      end_part output;
      output.parts <- text :: output.parts
  | Struct fields ->
      let put_field (number, value) =
        Buffer.add_int8 output.buffer (tag value);
        Buffer.add_int16_be output.buffer number;
        put output value
      in
      List.iter put_field fields;
      Buffer.add_int8 output.buffer 0
  | List values ->
      Buffer.add_int8 output.buffer (match values with [] -> tag (Bytes "") | first :: _ -> tag first);
      put_length output (List.length values);
      List.iter (put output) values

let frame name sequence arguments =
  let output = { parts = []; buffer = Buffer.create 256 } in
  Buffer.add_int16_be output.buffer version;
  Buffer.add_int16_be output.buffer call_type;
  put output (Bytes name);
  put output (I32 (Int32.of_int sequence));
  put output (Struct arguments);
  end_part output;
  let parts = List.rev output.parts in
  let length = Bytes.create 4 in
  Bytes.set_int32_be length 0 (Int32.of_int (List.fold_left (fun sum part -> sum + String.length part) 0 parts));
  (Bytes.to_string length ^ List.hd parts) :: List.tl parts

(* Bytes to values *)

type reader = { body : string; mutable position : int; mutable values : int }

let malformed text = raise (Malformed text)

let take reader size get =
  let position = reader.position in
  if size < 0 || size > String.length reader.body - position then malformed "a length beyond the reply's end";
  reader.position <- position + size;
  get reader.body position

let take_i8 reader = take reader 1 String.get_int8
let take_u16 reader = take reader 2 String.get_uint16_be
let take_i32 reader = take reader 4 String.get_int32_be
let take_i64 reader = take reader 8 String.get_int64_be

(* Of bytes or of a list: either takes a byte for each, at least. *)
let take_length reader =
  let length = Int32.to_int (take_i32 reader) in
  let left = String.length reader.body - reader.position in
  if length < 0 || length > left then malformed "a length beyond the reply's end";
  length

let take_bytes reader =
  let length = take_length reader in
  take reader length (fun body position -> String.sub body position length)

let rec take_value reader depth kind =
  reader.values <- reader.values + 1;
  if depth > max_depth then malformed "too many levels";
  if reader.values > max_values then malformed "too many values";
  match kind with
  | 2 -> Bool (take_i8 reader <> 0)
  | 3 -> I8 (take_i8 reader)
  | 4 -> Double (Int64.float_of_bits (take_i64 reader))
  | 6 -> I16 (take reader 2 String.get_int16_be)
  | 8 -> I32 (take_i32 reader)
  | 10 -> I64 (take_i64 reader)
  | 11 -> Bytes (take_bytes reader)
  | 12 -> Struct (take_fields reader depth [])
  | 13 ->
      let key = take_i8 reader in
      let value = take_i8 reader in
      take_items reader depth [ key; value ]
  | 14 | 15 -> take_items reader depth [ take_i8 reader ]
  | other -> malformed (Printf.sprintf "a value of the unknown type %d" other)

(* Both loops are tail calls: the number of items is the other end's choice. *)
and take_items reader depth kinds =
  let add items kind = take_value reader (depth + 1) kind :: items in
  let rec collect items = function
    | 0 -> List (List.rev items)
    | left -> collect (List.fold_left add items kinds) (left - 1)
  in
  collect [] (take_length reader)

and take_fields reader depth fields =
  match take_i8 reader with
  | 0 -> List.rev fields
  | kind ->
      let number = take reader 2 String.get_int16_be in
      let value = take_value reader (depth + 1) kind in
      take_fields reader depth ((number, value) :: fields)

(* Fields *)

let least, most = (Int64.of_int min_int, Int64.of_int max_int)

let int number fields =
  match List.assoc_opt number fields with
  | Some (Bool flag) -> Bool.to_int flag
  | Some (I8 number | I16 number) -> number
  | Some (I32 number) -> Int32.to_int number
  | Some (I64 number) -> Int64.to_int (max least (min most number))
  | Some (Double _ | Bytes _ | Struct _ | List _) | None -> 0

let int64 number fields = match List.assoc_opt number fields with Some (I64 number) -> number | _ -> 0L
let bytes number fields = match List.assoc_opt number fields with Some (Bytes text) -> Some text | _ -> None
let text number fields = Option.value (bytes number fields) ~default:""
let fields number fields = match List.assoc_opt number fields with Some (Struct fields) -> fields | _ -> []
let list number fields = match List.assoc_opt number fields with Some (List values) -> values | _ -> []

let reply body ~name ~sequence =
  let reader = { body; position = 0; values = 0 } in
  if take_u16 reader <> version then malformed "not Thrift's binary protocol";
  let kind = take_u16 reader land 0xff in
  let other = take_bytes reader in
  if take_i32 reader <> Int32.of_int sequence then malformed "a reply to another call";
  let result = take_fields reader 0 [] in
  if reader.position <> String.length body then malformed "bytes after the reply's end";
  if kind = exception_type then raise (Refused (text 1 result));
  if kind <> reply_type || other <> name then malformed "not a reply to this method";
  result
