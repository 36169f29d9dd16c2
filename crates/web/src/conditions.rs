//! Conditional requests (RFC 9110, section 13).

use crate::{Malformed, malformed};
use httpdate::parse_http_date;
use std::time::{Duration, SystemTime};

/// Most tags of one list; programs usually send one.
const MAX_TAGS: usize = 64;
/// A modification time of whole seconds tells two states apart only if it is this old (section 8.8.2.2).
const STRONG_AFTER: Duration = Duration::from_secs(1);

/// A strong entity tag, without its quotation marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag(pub String);

impl std::fmt::Display for EntityTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// The state of a resource that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The file's tag, which changes with each change of the file.
    pub tag: EntityTag,
    /// Its last change.
    pub modified: SystemTime,
}

/// A request's conditional fields, as they came. Several lines of one field are joined by commas.
#[derive(Debug, Default, Clone, Copy)]
pub struct Fields<'a> {
    /// `If-Match`.
    pub if_match: Option<&'a str>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a str>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a str>,
    /// `If-Range`.
    pub if_range: Option<&'a str>,
}

/// A request's conditions.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Conditions {
    matches: Option<Tags>,
    matches_none: Option<Tags>,
    modified_since: Option<SystemTime>,
    unmodified_since: Option<SystemTime>,
    range: Option<RangeIf>,
}

/// The list of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tags {
    Any,
    Listed(Vec<Tag>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tag {
    weak: bool,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RangeIf {
    Tag(Tag),
    Date(SystemTime),
    Never,
}

/// The outcome of a request's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They hold.
    Go,
    /// The client of a GET or HEAD already has the current state (304).
    NotModified,
    /// They don't hold (412).
    Failed,
}

impl Conditions {
    /// Parses the fields. As the RFC demands, it ignores invalid dates.
    ///
    /// # Errors
    /// For an invalid list of tags: if `If-Match` were ignored, the request could overwrite another
    /// client's change.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Malformed> {
        let tags = |value: Option<&str>| value.map(Tags::parse).transpose();
        let date = |value: Option<&str>| value.and_then(|value| parse_http_date(value.trim()).ok());
        Ok(Self {
            matches: tags(fields.if_match)?,
            matches_none: tags(fields.if_none_match)?,
            modified_since: date(fields.if_modified_since),
            unmodified_since: date(fields.if_unmodified_since),
            range: fields.if_range.map(RangeIf::parse),
        })
    }

    /// Whether the request has no conditions, so that the caller needn't look up the state.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the request is for a new resource only: `If-None-Match: *`.
    pub fn only_creates(&self) -> bool {
        self.matches_none == Some(Tags::Any)
    }

    /// Decides in the order of section 13.2.2. `current` is none if there is no such resource.
    pub fn decide(&self, current: Option<&State>, is_query: bool) -> Verdict {
        let holds = match (&self.matches, self.unmodified_since) {
            (Some(tags), _) => current.is_some_and(|state| tags.have(&state.tag, true)),
            (None, Some(since)) => current.is_none_or(|state| seconds(state.modified) <= seconds(since)),
            (None, None) => true,
        };
        if !holds {
            return Verdict::Failed;
        }
        let is_known = match (&self.matches_none, self.modified_since) {
            (Some(tags), _) => current.is_some_and(|state| tags.have(&state.tag, false)),
            (None, Some(since)) if is_query => {
                current.is_some_and(|state| seconds(state.modified) <= seconds(since))
            }
            _ => false,
        };
        match (is_known, is_query) {
            (false, _) => Verdict::Go,
            (true, true) => Verdict::NotModified,
            (true, false) => Verdict::Failed,
        }
    }

    /// Whether to send only the range. If `If-Range` doesn't match this state, the client has parts of
    /// another state, and needs the whole file. With `now`, it checks whether a date is old enough.
    pub fn allow_range(&self, current: &State, now: SystemTime) -> bool {
        match &self.range {
            None => true,
            Some(RangeIf::Never) => false,
            Some(RangeIf::Tag(tag)) => !tag.weak && tag.text == current.tag.0,
            Some(RangeIf::Date(date)) => {
                let age = now.duration_since(current.modified).unwrap_or_default();
                seconds(current.modified) == seconds(*date) && age > STRONG_AFTER
            }
        }
    }
}

/// Whole seconds since 1970, as HTTP's dates have them.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Tags {
    fn parse(value: &str) -> Result<Self, Malformed> {
        let mut rest = value.trim();
        if rest == "*" {
            return Ok(Self::Any);
        }
        // A list may have empty elements (section 5.6.1.2).
        const BETWEEN: [char; 3] = [',', ' ', '\t'];
        rest = rest.trim_start_matches(BETWEEN);
        let mut tags = Vec::new();
        while !rest.is_empty() {
            let Some((tag, after)) = Tag::take(rest) else {
                return malformed(
                    "If-Match and If-None-Match take \"TAG\" or W/\"TAG\", separated by commas, or *",
                );
            };
            if tags.len() == MAX_TAGS {
                return malformed(format!("a condition has more than {MAX_TAGS} tags"));
            }
            tags.push(tag);
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start_matches(BETWEEN),
                None if rest.is_empty() => {}
                None => return malformed("a condition's tags must be separated by commas"),
            }
        }
        match tags.is_empty() {
            true => malformed("a condition has no tag"),
            false => Ok(Self::Listed(tags)),
        }
    }

    /// In a strong comparison, a weak tag never matches (section 8.8.3.2).
    fn have(&self, tag: &EntityTag, strong: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(tags) => tags.iter().any(|own| own.text == tag.0 && !(strong && own.weak)),
        }
    }
}

impl Tag {
    /// The tag that a text begins with, and the text after it.
    fn take(text: &str) -> Option<(Self, &str)> {
        let (weak, quoted) = match text.strip_prefix("W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (text, rest) = quoted.strip_prefix('"')?.split_once('"')?;
        Some((Self { weak, text: text.to_owned() }, rest))
    }
}

impl RangeIf {
    /// An invalid value matches no state, so the client gets the whole file.
    fn parse(value: &str) -> Self {
        match (Tag::take(value.trim()), parse_http_date(value.trim())) {
            (Some((tag, "")), _) => Self::Tag(tag),
            (None, Ok(date)) => Self::Date(date),
            _ => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One second before the file's change, that second, and the one after.
    const DATES: [&str; 3] =
        ["Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"];

    fn state() -> State {
        let modified = parse_http_date(DATES[1]).unwrap() + Duration::from_millis(300);
        State { tag: EntityTag("one".into()), modified }
    }

    fn decide(fields: Fields<'_>, current: Option<&State>, is_query: bool) -> Verdict {
        Conditions::parse(&fields).unwrap().decide(current, is_query)
    }

    #[test]
    fn a_change_needs_the_state_that_it_names() {
        let state = state();
        for (tags, current, verdict) in [
            ("\"one\"", Some(&state), Verdict::Go),
            ("\"two\" , \"one\"", Some(&state), Verdict::Go),
            (", ,\"two\",, \"one\" ,", Some(&state), Verdict::Go),
            ("*", Some(&state), Verdict::Go),
            ("\"two\"", Some(&state), Verdict::Failed),
            ("W/\"one\"", Some(&state), Verdict::Failed),
            ("*", None, Verdict::Failed),
        ] {
            let fields = Fields { if_match: Some(tags), ..Fields::default() };
            assert_eq!(decide(fields, current, false), verdict, "{tags}");
        }
        let only_new = Fields { if_none_match: Some("*"), ..Fields::default() };
        assert_eq!(decide(only_new, Some(&state), false), Verdict::Failed);
        assert_eq!(decide(only_new, None, false), Verdict::Go);
        assert!(Conditions::parse(&only_new).unwrap().only_creates());
    }

    #[test]
    fn a_query_for_a_known_state_is_answered_without_it() {
        let state = state();
        let none = |tags| Fields { if_none_match: Some(tags), ..Fields::default() };
        assert_eq!(decide(none("W/\"one\""), Some(&state), true), Verdict::NotModified);
        assert_eq!(decide(none("\"two\""), Some(&state), true), Verdict::Go);
        for (date, verdict) in DATES.iter().zip([Verdict::Go, Verdict::NotModified, Verdict::NotModified]) {
            let since = Fields { if_modified_since: Some(date), ..Fields::default() };
            assert_eq!(decide(since, Some(&state), true), verdict, "{date}");
            // A tag is more exact.
            let both = Fields { if_none_match: Some("\"two\""), ..since };
            assert_eq!(decide(both, Some(&state), true), Verdict::Go);
        }
        for (date, verdict) in DATES.iter().zip([Verdict::Failed, Verdict::Go, Verdict::Go]) {
            let since = Fields { if_unmodified_since: Some(date), ..Fields::default() };
            assert_eq!(decide(since, Some(&state), false), verdict, "{date}");
        }
    }

    #[test]
    fn a_range_continues_the_same_state_only() {
        let state = state();
        let later = state.modified + Duration::from_secs(60);
        let allows = |value: &str, now| {
            let fields = Fields { if_range: Some(value), ..Fields::default() };
            Conditions::parse(&fields).unwrap().allow_range(&state, now)
        };
        assert!(allows("\"one\"", later) && allows(DATES[1], later));
        assert!(!allows(DATES[1], state.modified), "the file may change again within the second");
        for value in ["\"two\"", "W/\"one\"", DATES[0], DATES[2], "nonsense", ""] {
            assert!(!allows(value, later), "{value}");
        }
    }

    #[test]
    fn a_list_of_tags_that_is_none_is_refused_and_a_date_ignored() {
        for tags in ["", ",", "one", "\"one", "\"one\" \"two\"", "*, \"one\"", "W/one"] {
            let fields = Fields { if_match: Some(tags), ..Fields::default() };
            assert!(Conditions::parse(&fields).is_err(), "{tags}");
        }
        let many = vec!["\"a\""; MAX_TAGS + 1].join(",");
        assert!(Conditions::parse(&Fields { if_match: Some(&many), ..Fields::default() }).is_err());
        let dates = Fields { if_modified_since: Some("yesterday"), ..Fields::default() };
        assert!(Conditions::parse(&dates).unwrap().are_none());
    }
}
