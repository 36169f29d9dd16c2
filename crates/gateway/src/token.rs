//! Session tokens: signed statements of a session's number, store, login and expiry. Any gateway
//! with the same key accepts them. A token carries the end and the epoch of its login; renewing it
//! changes neither. Each session's secret for its store is derived from the same key.

use crate::mac;
use crate::passwords::Epoch;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use strait_store::{SessionSecret, hex};

/// Longest token accepted, in bytes. Tokens made here are far shorter.
const MAX_TOKEN_BYTES: usize = 1_024;
/// A token of the first version, `s1.`, had no end and no epoch of its login; gateways refuse it.
const PREFIX: &str = "s2.";
const MAC_BYTES: usize = 32;
// Kinds of login in a token.
const NO_LOGIN: u8 = 0;
const OWN_LOGIN: u8 = 1;
const LENT_LOGIN: u8 = 2;

/// The contents of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The session.
    pub session: u128,
    /// Milliseconds since 1970-01-01 UTC.
    pub expires_ms: i64,
    /// Name of the store.
    pub store: String,
    /// The login that it stands for, if there was one.
    pub login: Option<Login>,
}

/// A login by password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user who logged in.
    pub user: String,
    /// Epoch of the user's row in the password file at login.
    pub epoch: Epoch,
    /// Its latest end, in milliseconds since 1970-01-01 UTC.
    pub ends_ms: i64,
    /// The session that lent it, with whose close it ends. Such a login can't be lent again: its lender couldn't
    /// take that back.
    pub lender: Option<u128>,
}

/// Signs and checks tokens.
pub struct Signer {
    keyed: Hmac<Sha256>,
}

impl Signer {
    /// A signer with this key.
    pub fn new(key: [u8; 32]) -> Self {
        Self { keyed: mac::keyed(&key) }
    }

    /// A token: the prefix, then the claims and their HMAC-SHA256 in hex.
    pub fn sign(&self, claims: &Claims) -> String {
        let mut bytes = Vec::with_capacity(160);
        bytes.extend_from_slice(&claims.session.to_be_bytes());
        bytes.extend_from_slice(&claims.expires_ms.to_be_bytes());
        let login = claims.login.as_ref();
        let lender = login.and_then(|login| login.lender);
        bytes.push(login.map_or(NO_LOGIN, |_| if lender.is_some() { LENT_LOGIN } else { OWN_LOGIN }));
        bytes.extend_from_slice(&login.map_or(0, |login| login.ends_ms).to_be_bytes());
        bytes.extend_from_slice(&login.map(|login| login.epoch).unwrap_or_default().0);
        lender.inspect(|lender| bytes.extend_from_slice(&lender.to_be_bytes()));
        bytes.extend_from_slice(claims.store.as_bytes());
        bytes.push(0); // no store's or user's name has a NUL
        bytes.extend_from_slice(login.map_or("", |login| &login.user).as_bytes());
        let mac = self.mac(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&mac);
        format!("{PREFIX}{}", hex::encode(&bytes))
    }

    /// The claims of a token that this key signed and that hasn't expired.
    pub fn check(&self, token: &str, now_ms: i64) -> Option<Claims> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let bytes = hex::decode(token.strip_prefix(PREFIX)?)?;
        let (body, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        self.mac(body).verify_slice(mac).ok()?; // in constant time
        let (session, rest) = body.split_first_chunk::<16>()?;
        let (expires, rest) = rest.split_first_chunk::<8>()?;
        let (&kind, rest) = rest.split_first()?;
        let (ends, rest) = rest.split_first_chunk::<8>()?;
        let (epoch, rest) = rest.split_first_chunk::<{ Epoch::BYTES }>()?;
        let (lender, names) = match kind {
            LENT_LOGIN => rest.split_first_chunk::<16>().map(|(lender, names)| (Some(*lender), names))?,
            _ => (None, rest),
        };
        let (store, user) = std::str::from_utf8(names).ok()?.split_once('\0')?;
        let login = || Login {
            user: user.to_owned(),
            epoch: Epoch(*epoch),
            ends_ms: i64::from_be_bytes(*ends),
            lender: lender.map(u128::from_be_bytes),
        };
        let claims = Claims {
            session: u128::from_be_bytes(*session),
            expires_ms: i64::from_be_bytes(*expires),
            store: store.to_owned(),
            login: (kind == OWN_LOGIN || kind == LENT_LOGIN).then(login),
        };
        (claims.expires_ms > now_ms).then_some(claims)
    }

    /// The secret of a session, for its store: the same at every gateway with this key. Stores may publish
    /// values derived from it. Without the key, nobody can find a session's number by trying numbers until
    /// such a value fits. (Session numbers of the 2009 service have only 62 random bits.)
    pub fn secret_of(&self, session: u128) -> SessionSecret {
        // This text is shorter than the claims of any token, so its MAC is never a token's.
        let mac = self.mac(b"secret of session ").chain_update(session.to_be_bytes());
        SessionSecret(mac.finalize().into_bytes().into())
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        mac.update(bytes);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let login = Login { user: "alice".into(), epoch: Epoch([3; 16]), ends_ms: 5_000, lender: None };
        Claims { session: 7, expires_ms: 1_000, store: "main".into(), login: Some(login) }
    }

    #[test]
    fn a_token_says_what_was_signed_until_it_expires() {
        let signer = Signer::new([1; 32]);
        let token = signer.sign(&claims());
        assert_eq!(signer.check(&token, 999), Some(claims()));
        assert_eq!(signer.check(&token, 1_000), None);
        let lent = claims().login.map(|login| Login { lender: Some(9), ..login });
        let lent = Claims { login: lent, ..claims() };
        assert_eq!(signer.check(&signer.sign(&lent), 0), Some(lent));
        let anonymous = Claims { login: None, ..claims() };
        assert_eq!(signer.check(&signer.sign(&anonymous), 0), Some(anonymous));
    }

    #[test]
    fn a_sessions_secret_depends_on_the_key_and_the_session() {
        let secret = |key, session| Signer::new([key; 32]).secret_of(session);
        assert_eq!(secret(1, 7), secret(1, 7));
        assert!(secret(1, 7) != secret(2, 7) && secret(1, 7) != secret(1, 8));
    }

    #[test]
    fn no_changed_token_and_no_other_key_is_taken() {
        let signer = Signer::new([1; 32]);
        let token = signer.sign(&claims());
        assert_eq!(Signer::new([2; 32]).check(&token, 0), None);
        for index in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[index] = if changed[index] == b'0' { b'1' } else { b'0' };
            assert_eq!(signer.check(&String::from_utf8(changed).unwrap(), 0), None, "at {index}");
            assert_eq!(signer.check(&token[..index], 0), None);
        }
        assert_eq!(signer.check(&"s2.é".repeat(9), 0), None);
    }
}
