//! Text from clients in logs.

/// Whether a character in a client's text could break a line of a log, command a terminal or change
/// the order in which a line is shown: control characters, the line and paragraph separators, and
/// Unicode's property Bidi_Control (UAX #9).
pub fn misleads(c: char) -> bool {
    let separates = matches!(c, '\u{2028}' | '\u{2029}');
    let reorders =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || separates || reorders
}
