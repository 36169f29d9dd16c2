//! Modes in the syntax of chmod(1): octal, or symbolic.

use crate::failure::Failure;

/// A parsed mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// These bits.
    Bits(u32),
    /// These changes, one after the other.
    Changes(Vec<Change>),
}

/// One action of a clause, such as `u+rw`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Bit shifts of the classes: 6, 3, 0 for owner, group, others.
    shifts: Vec<u32>,
    action: Action,
    /// Read, write and execute bits.
    bits: u32,
    /// `X`: execute for directories, and for files that some class can execute.
    conditional_execute: bool,
    /// The sticky bit.
    sticky: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Add,
    Remove,
    Set,
}

const STICKY: u32 = 0o1000;

impl Mode {
    /// Parses `750`, `u+rwx,go-w`, `a=rX`, `+t`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            let known = "give a mode such as 750 or u+rwx,go-w; set set-id bits in octal";
            Failure::usage(format!("chmod: invalid mode {text}: {known}"))
        };
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let bits = u32::from_str_radix(text, 8).map_err(|_| wrong())?;
            return if bits <= 0o7777 { Ok(Self::Bits(bits)) } else { Err(wrong()) };
        }
        let mut changes = Vec::new();
        for clause in text.split(',') {
            parse_clause(clause, &mut changes).ok_or_else(wrong)?;
        }
        Ok(Self::Changes(changes))
    }

    /// The bits that result from `old`.
    pub fn apply(&self, old: u32, is_directory: bool) -> u32 {
        match self {
            Self::Bits(bits) => *bits,
            Self::Changes(changes) => {
                changes.iter().fold(old, |bits, change| change.apply(bits, is_directory))
            }
        }
    }
}

/// `[ugoa]*([+-=][rwxXt]*)+`
fn parse_clause(clause: &str, changes: &mut Vec<Change>) -> Option<()> {
    let actions_at = clause.find(['+', '-', '='])?;
    let (classes, mut actions) = clause.split_at(actions_at);
    let mut shifts = Vec::new();
    for class in classes.chars() {
        match class {
            'u' => shifts.push(6),
            'g' => shifts.push(3),
            'o' => shifts.push(0),
            'a' => shifts.extend([6, 3, 0]),
            _ => return None,
        }
    }
    if shifts.is_empty() {
        shifts.extend([6, 3, 0]);
    }
    while let Some(action) = actions.chars().next() {
        let action = match action {
            '+' => Action::Add,
            '-' => Action::Remove,
            '=' => Action::Set,
            _ => return None,
        };
        let rest = &actions[1..];
        let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
        let mut change =
            Change { shifts: shifts.clone(), action, bits: 0, conditional_execute: false, sticky: false };
        for letter in rest[..end].chars() {
            match letter {
                'r' => change.bits |= 4,
                'w' => change.bits |= 2,
                'x' => change.bits |= 1,
                'X' => change.conditional_execute = true,
                't' => change.sticky = true,
                _ => return None,
            }
        }
        changes.push(change);
        actions = &rest[end..];
    }
    Some(())
}

impl Change {
    fn apply(&self, old: u32, is_directory: bool) -> u32 {
        let execute = self.conditional_execute && (is_directory || old & 0o111 != 0);
        let bits = self.bits | u32::from(execute);
        let mut new = old;
        for shift in &self.shifts {
            match self.action {
                Action::Add => new |= bits << shift,
                Action::Remove => new &= !(bits << shift),
                Action::Set => new = new & !(7 << shift) | bits << shift,
            }
        }
        match (self.sticky, self.action) {
            (true, Action::Remove) => new & !STICKY,
            (true, _) => new | STICKY,
            (false, _) => new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(mode: &str, old: u32) -> u32 {
        Mode::parse(mode).unwrap().apply(old, false)
    }

    #[test]
    fn modes_do_what_chmod_does() {
        for (mode, old, new) in [
            ("750", 0o644, 0o750),
            ("0", 0o644, 0),
            ("1777", 0o755, 0o1777),
            ("u+x", 0o644, 0o744),
            ("go-r", 0o644, 0o600),
            ("a=r", 0o751, 0o444),
            ("+x", 0o600, 0o711),
            ("u=rwx,g=rx,o=", 0o777, 0o750),
            ("u+w-x", 0o555, 0o755 & !0o100 | 0o200),
            ("+X", 0o644, 0o644),
            ("+X", 0o744, 0o755),
            ("+t", 0o755, 0o1755),
            ("-t", 0o1755, 0o755),
        ] {
            assert_eq!(applied(mode, old), new, "{mode} of {old:o}");
        }
        assert_eq!(Mode::parse("+X").unwrap().apply(0o644, true), 0o755, "of a directory");
    }

    #[test]
    fn what_is_no_mode_is_refused() {
        for mode in ["", "8", "17777", "u", "z+x", "u+q", "u+x,,g+x", "u+x,", "rwx"] {
            assert!(Mode::parse(mode).is_err(), "{mode}");
        }
    }
}
