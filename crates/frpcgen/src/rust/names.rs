//! Converts names of the RPC language to names of Rust.

/// Converts `nfs_fh3`, `NFS_FH3` and `nfsFh3` to `NfsFh3`.
pub fn camel(name: &str) -> String {
    let joined: String = words(name).iter().map(|word| capitalised(word)).collect();
    match joined.as_str() {
        "" => "X".to_owned(),
        "Self" => "Self_".to_owned(),
        starts_badly if starts_badly.starts_with(|c: char| c.is_ascii_digit()) => format!("X{joined}"),
        _ => joined,
    }
}

/// Converts `readArgs` and `READ_ARGS` to `read_args`.
pub fn snake(name: &str) -> String {
    let joined = words(name).join("_");
    match joined.as_str() {
        "" => "x".to_owned(),
        "self" | "super" | "crate" => format!("{joined}_"),
        keyword if KEYWORDS.contains(&keyword) => format!("r#{keyword}"),
        starts_badly if starts_badly.starts_with(|c: char| c.is_ascii_digit()) => format!("x{joined}"),
        _ => joined,
    }
}

/// Converts `maxLen` to `MAX_LEN`.
pub fn screaming(name: &str) -> String {
    let joined = words(name).join("_").to_ascii_uppercase();
    match joined.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => joined,
        _ => format!("X{joined}"),
    }
}

/// The variant for an enum's member. If the member's name begins with the enum's name, that part is dropped.
pub fn variant(owner: &str, member: &str) -> String {
    let (owner, member) = (camel(owner), camel(member));
    match member.strip_prefix(&owner) {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_uppercase()) => camel(rest),
        _ => member,
    }
}

/// The words of a name, in lower case. A word begins after `_`, at an upper-case letter after a lower-case
/// one, and at the last of several upper-case letters before a lower-case one (`XDRFile` is `xdr`, `file`).
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let characters: Vec<char> = part.chars().collect();
        for (index, c) in characters.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| characters[before]);
            let behind = characters.get(index + 1);
            let begins = c.is_ascii_uppercase()
                && before.is_some_and(|before| {
                    before.is_ascii_lowercase()
                        || (before.is_ascii_uppercase() && behind.is_some_and(char::is_ascii_lowercase))
                });
            if begins || index == 0 {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(c.to_ascii_lowercase());
            }
        }
    }
    words
}

fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(characters).collect()
}

/// Rust's keywords that `r#` can escape.
const KEYWORDS: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_rusts_habits() {
        for (source, type_name, field) in [
            ("nfs_fh3", "NfsFh3", "nfs_fh3"),
            ("NFSPROC_GETATTR", "NfsprocGetattr", "nfsproc_getattr"),
            ("READ3res", "Read3res", "read3res"),
            ("createHow", "CreateHow", "create_how"),
            ("XDRFile", "XdrFile", "xdr_file"),
            ("type", "Type", "r#type"),
            ("self", "Self_", "self_"),
            ("_3d", "X3d", "x3d"),
            ("__", "X", "x"),
        ] {
            assert_eq!((camel(source), snake(source)), (type_name.into(), field.into()), "{source}");
        }
        assert_eq!(screaming("maxLen"), "MAX_LEN");
        assert_eq!(variant("status", "STATUS_NOT_FOUND"), "NotFound");
        assert_eq!(variant("nfsstat", "NFS_OK"), "NfsOk");
        assert_eq!(variant("mode", "MODE_2"), "Mode2");
    }
}
