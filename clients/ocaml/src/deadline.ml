type t = { at : float; longest : float }

(* The standard library has no clock that nobody sets. If somebody sets this one back, what is left doesn't grow. *)
let now = Unix.gettimeofday
let after seconds = { at = now () +. seconds; longest = seconds }
let earlier one other = if one.at < other.at then one else other
let left { at; longest } = Float.max 0. (Float.min longest (at -. now ()))
let left_ms deadline = int_of_float (Float.max 1. (Float.min (left deadline *. 1e3) (Int32.to_float Int32.max_int)))
