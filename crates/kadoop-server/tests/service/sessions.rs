//! A session whose client is gone gets its open file at another client.

use crate::support::{Cluster, user};
use std::time::{Duration, Instant};
use strait_kadoop_client::CreateOptions;
use strait_kadoop_core::{
    Error,
    messages::{Caller, Session},
};

#[test]
fn an_append_by_the_same_session_takes_the_file_over_within_seconds() {
    let cluster = Cluster::start(3);
    let (first, second) = (cluster.client(), cluster.client());
    let mine = Caller { session: Some(Session([1; 32])), ..user("kadoop") };
    let other = Caller { session: Some(Session([2; 32])), ..mine.clone() };
    let mut left = first.create(&mine, "/f", &CreateOptions::default()).unwrap();
    left.write("of the first client, ").unwrap();
    left.flush().unwrap();
    // The first client lives, and renews its lease.
    for stranger in [&other, &user("kadoop")] {
        assert_eq!(second.append(stranger, "/f").unwrap_err().error, Error::Busy);
    }
    assert_eq!(first.append(&mine, "/f").unwrap_err().error, Error::Busy, "it has the file");
    let begun = Instant::now();
    let mut writer = second.append(&mine, "/f").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    writer.write("of the second").unwrap();
    writer.close().unwrap();
    left.write("lost").unwrap();
    assert_eq!(left.sync().unwrap_err().error, Error::LeaseLost);
    let read = second.open(&mine, "/f").unwrap().read_at(0, 99).unwrap();
    assert_eq!(read, "of the first client, of the second");
}
