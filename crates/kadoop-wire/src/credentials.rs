//! Credentials, with which users without the clients' key call the namenode for some minutes.
//!
//! A credential has an id, which the client sends in each handshake, and a secret, with which it tags every
//! frame. The namenode sends the secret to the client once, over TLS. The secret is an HMAC over the id and
//! the user's *epoch*, with a key that only the namenode uses. So the namenode needn't store credentials,
//! and they stay valid over its restarts. Setting a password draws a new epoch, which ends all credentials
//! of the user.

use super::tokens::hmac;
use compact_str::CompactString;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use strait_flexrpc::{ClusterKey, KeyId};
use strait_kadoop_core::{ClientId, Millis};

/// Version of an id's layout.
const LAYOUT: u8 = 1;
/// Bytes of an id before the user's name: the layout's version, the client and two times.
const FIXED_BYTES: usize = 1 + 3 * 8;

/// Bytes of a credential's secret: the output size of HMAC-SHA256.
const SECRET_BYTES: usize = 32;

/// Random bytes that differ for each password of a user, and for each user that gets the same name later.
pub type Epoch = [u8; 16];

/// The contents of a credential's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The user.
    pub user: CompactString,
    /// The holder's client number, which no other client has.
    pub client: ClientId,
    /// When the credential ends, by the namenode's wall clock.
    pub until_ms: Millis,
    /// The latest end that a renewed credential can have, by the same clock.
    pub renewable_until_ms: Millis,
}

impl Granted {
    /// The credential's id for FlexRPC's handshake. None: the user's name is too long.
    pub fn id(&self) -> Option<KeyId> {
        let mut id = vec![LAYOUT];
        for number in [self.client.0, self.until_ms, self.renewable_until_ms] {
            id.extend_from_slice(&number.to_be_bytes());
        }
        id.extend_from_slice(self.user.as_bytes());
        KeyId::new(&id)
    }

    /// Parses an id, which may be forged: the caller of this function must check its secret. None: it has
    /// another layout.
    pub fn parse(id: &KeyId) -> Option<Self> {
        let (fixed, user) = id.bytes().split_at_checked(FIXED_BYTES)?;
        let number = |at: usize| Some(u64::from_be_bytes(fixed.get(at..at + 8)?.try_into().ok()?));
        let user = std::str::from_utf8(user).ok().filter(|user| !user.is_empty())?;
        (fixed[0] == LAYOUT).then_some(())?;
        Some(Self {
            user: user.into(),
            client: ClientId(number(1)?),
            until_ms: number(9)?,
            renewable_until_ms: number(17)?,
        })
    }
}

/// The key with which the namenode computes credentials' secrets.
#[derive(Clone)]
pub struct CredentialKey(Hmac<Sha256>);

impl CredentialKey {
    /// From the key of the cluster.
    pub fn new(key: &[u8]) -> Self {
        Self(hmac(key))
    }

    /// The secret of the credential with this id.
    pub fn secret(&self, id: &KeyId, epoch: &Epoch) -> [u8; SECRET_BYTES] {
        let mut mac = self.0.clone();
        mac.update(epoch);
        mac.update(id.bytes());
        mac.finalize().into_bytes().into()
    }

    /// The secret as a key for FlexRPC.
    pub fn key(&self, id: &KeyId, epoch: &Epoch) -> Option<ClusterKey> {
        ClusterKey::new(&self.secret(id, epoch)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted() -> Granted {
        Granted { user: "alice".into(), client: ClientId(7), until_ms: 1_000, renewable_until_ms: 9_000 }
    }

    #[test]
    fn an_id_says_what_was_granted_and_anything_else_is_none() {
        let id = granted().id().unwrap();
        assert_eq!(Granted::parse(&id), Some(granted()));
        for bytes in [&id.bytes()[..FIXED_BYTES], b"x", &[&[9], &id.bytes()[1..]].concat(), &[LAYOUT; 255]] {
            let parsed = Granted::parse(&KeyId::new(bytes).unwrap());
            assert!(parsed.is_none_or(|parsed| parsed != granted()), "{bytes:?}");
        }
        let latin1 = [&id.bytes()[..FIXED_BYTES], &[0xe4]].concat();
        assert_eq!(Granted::parse(&KeyId::new(&latin1).unwrap()), None);
    }

    #[test]
    fn a_secret_is_of_its_key_id_and_epoch_alone() {
        let key = CredentialKey::new(&[7; 32]);
        let (id, epoch) = (granted().id().unwrap(), [1; 16]);
        let secret = key.secret(&id, &epoch);
        assert_eq!(CredentialKey::new(&[7; 32]).secret(&id, &epoch), secret, "after a restart");
        assert_ne!(CredentialKey::new(&[8; 32]).secret(&id, &epoch), secret);
        assert_ne!(key.secret(&id, &[2; 16]), secret);
        for other in [
            Granted { user: "bob".into(), ..granted() },
            Granted { client: ClientId(8), ..granted() },
            Granted { until_ms: 1_001, ..granted() },
            Granted { renewable_until_ms: 9_001, ..granted() },
        ] {
            assert_ne!(key.secret(&other.id().unwrap(), &epoch), secret);
        }
    }
}
