//! URIs of gateways, checked by the cases of all client languages.

use serde_json::Value;
use strait_store::{ErrorKind, StoreUri};

const CASES: &str = include_str!("../../../clients/conformance/cases.json");

#[test]
fn a_gateways_uri_has_the_parts_that_all_clients_see_in_it() {
    let document: Value = serde_json::from_str(CASES).unwrap();
    let cases = document["uris"].as_array().unwrap();
    assert!(cases.len() > 40, "{} cases", cases.len());
    for case in cases {
        let text = case["uri"].as_str().unwrap();
        match (StoreUri::parse(text), case.get("error")) {
            (Ok(uri), None) => {
                let address = uri.gateway();
                let (host, port) = address.rsplit_once(':').unwrap();
                assert_eq!(host.trim_matches(['[', ']']), case["host"], "{text}");
                assert_eq!(port.parse::<u16>().unwrap(), case["port"], "{text}");
                assert_eq!(uri.gateway_store(), case["store"].as_str(), "{text}");
                assert_eq!(uri.path().as_str(), case["path"], "{text}");
                let again = StoreUri::parse(&uri.to_string());
                assert_eq!(again.unwrap(), uri, "{text} is written {uri}");
            }
            (Err(error), Some(kind)) => {
                let kind = ErrorKind::from_name(kind.as_str().unwrap());
                assert_eq!(Some(error.kind()), kind, "{text}: {error}");
            }
            (parsed, expected) => panic!("{text}: {parsed:?} where {expected:?} is due"),
        }
    }
}
