//! The secret of a lent login, on its way from the command `run` to its helpers.

use serde_json::{Value, json};
use strait_client::Secret;
use strait_dispatch::frame::Lent;

/// Composes the secret from a token and, if TLS is to be used, the certificates to trust. `Some(None)` means
/// the system's certificates.
pub fn secret(token: &Secret, tls: Option<Option<String>>) -> String {
    json!({"token": token.0, "tls": tls.map(|ca| json!({"ca": ca}))}).to_string()
}

/// Parses the secret into the two values of [`secret`]; `None` if another version wrote it in another form.
pub fn parsed(lent: &Lent) -> Option<(Secret, Option<Option<String>>)> {
    let value: Value = serde_json::from_str(&lent.secret).ok()?;
    let token = Secret(value.get("token")?.as_str()?.to_owned());
    let ca = |tls: &Value| tls.get("ca").and_then(Value::as_str).map(str::to_owned);
    Some((token, value.get("tls").filter(|tls| !tls.is_null()).map(ca)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_composed_is_parsed() {
        for tls in [None, Some(None), Some(Some("PEM".to_owned()))] {
            let secret = secret(&Secret("token".to_owned()), tls.clone());
            let lent = Lent { store: "strait://host:1".to_owned(), secret };
            let (token, trusted) = parsed(&lent).unwrap();
            assert_eq!((token.0.as_str(), trusted), ("token", tls));
        }
    }
}
