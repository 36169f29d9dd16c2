//! A user's calls to the namenode for its writers, over one connection.

use super::super::channel::{CallId, Channel};
use super::super::errors::Effect;
use super::super::namenode::Namenode;
use super::super::retry::PATIENCE;
use super::super::rpc::{CLIENT_PROTOCOL, RpcError};
use prost::Message;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::Instant;
use strait_store::Result;

/// With this many concurrent calls of one user, the namenode or this machine is busy.
const BUSY: usize = 2;

/// The connection that all of a user's calls share, and the calls' numbers.
#[derive(Debug)]
pub struct Link {
    namenode: Arc<Namenode>,
    user: String,
    client_id: [u8; 16],
    next_call: AtomicI32,
    under_way: AtomicUsize,
    connection: tokio::sync::Mutex<Connection>,
}

/// The connection that all calls share.
#[derive(Debug, Default)]
struct Connection {
    /// The index of a namenode, and the channel to it.
    channel: Option<(usize, Arc<Channel>)>,
    /// The latest failure to connect: index, time and reason.
    failure: Option<(usize, Instant, io::Error)>,
}

impl Link {
    /// A link for this user. The first call connects.
    pub fn new(namenode: Arc<Namenode>, user: &str) -> Self {
        Self {
            namenode,
            user: user.to_owned(),
            client_id: *uuid::Uuid::new_v4().as_bytes(),
            next_call: AtomicI32::new(0),
            under_way: AtomicUsize::new(0),
            connection: tokio::sync::Mutex::default(),
        }
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether so many calls are running that a further one would delay them.
    pub fn is_busy(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) >= BUSY
    }

    /// Makes a call that the namenode can get twice: it remembers the outcome, or the outcome is the same.
    pub async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A> {
        self.ask(Effect::Remembered, method, request).await
    }

    /// Makes a call that the namenode must not get twice: OutcomeUnknown if its answer is lost.
    pub async fn call_once<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A> {
        self.ask(Effect::Mutation, method, request).await
    }

    async fn ask<Q: Message, A: Message + Default>(
        &self,
        effect: Effect,
        method: &'static str,
        request: &Q,
    ) -> Result<A> {
        let _under_way = UnderWay::begin(&self.under_way);
        let call = self.next_call.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        let attempt = |index, retry| async move {
            let id = CallId { client: self.client_id, call, retry };
            self.channel(index).await?.call(id, CLIENT_PROTOCOL, method, request).await
        };
        self.namenode.ask(effect, PATIENCE, attempt).await
    }

    /// The connection to the namenode with this index, which all calls share.
    async fn channel(&self, index: usize) -> std::result::Result<Arc<Channel>, RpcError> {
        let asked = Instant::now();
        let mut connection = self.connection.lock().await;
        if let Some((to, channel)) = &connection.channel
            && *to == index
            && !channel.has_ended()
        {
            return Ok(Arc::clone(channel));
        }
        // An attempt that failed while this call waited for the lock counts for this call, too. Otherwise the
        // waiting calls would try one after the other, for seconds each.
        if let Some((to, at, error)) = &connection.failure
            && *to == index
            && *at >= asked
        {
            return Err(RpcError::NotSent(io::Error::new(error.kind(), error.to_string())));
        }
        let address = self.namenode.address(index);
        match Channel::open(address, &self.user, CLIENT_PROTOCOL, &self.client_id).await {
            Ok(channel) => {
                let channel = Arc::new(channel);
                connection.channel = Some((index, Arc::clone(&channel)));
                Ok(channel)
            }
            Err(RpcError::NotSent(error)) => {
                let again = io::Error::new(error.kind(), error.to_string());
                connection.failure = Some((index, Instant::now(), again));
                Err(RpcError::NotSent(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// Counts one call until its end.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn begin(calls: &'a AtomicUsize) -> Self {
        calls.fetch_add(1, Ordering::Relaxed);
        Self(calls)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::rpc::CONNECT_TIMEOUT;
    use super::super::super::wire::Empty;
    use super::super::fake;
    use super::super::wire::{GetFileInfoRequest, GetFileInfoResponse, RenewLeaseRequest};
    use super::*;
    use futures::future::join_all;
    use strait_store::ErrorKind;

    #[tokio::test]
    async fn calls_wait_together_for_a_namenode_whose_host_is_down() {
        let down = fake::host_that_is_down().await;
        let active = fake::namenode(|_, _| fake::Answer::Message(Vec::new())).await;
        let namenode = Arc::new(Namenode::new(vec![down.address.to_string(), active]));
        let link = Link::new(namenode, "alice");
        let request = RenewLeaseRequest { client_name: "strait".to_owned() };
        let begin = Instant::now();
        for outcome in join_all((0..16).map(|_| link.call("renewLease", &request))).await {
            let Empty {} = outcome.unwrap();
        }
        assert!(begin.elapsed() < 3 * CONNECT_TIMEOUT, "{:?}", begin.elapsed());
    }

    #[tokio::test]
    async fn a_user_whom_the_namenode_refuses_learns_it_at_once() {
        let class = "org.apache.hadoop.security.authorize.AuthorizationException";
        let namenode = fake::refusing_namenode(class, "User alice is not authorized").await;
        let namenode = Arc::new(Namenode::new(vec![namenode]));
        let link = Link::new(Arc::clone(&namenode), "alice");
        let begin = Instant::now();
        // Each time, the answer may arrive before or after the call is sent.
        for _ in 0..20 {
            let request = GetFileInfoRequest { path: "/f".to_owned() };
            let own = link.call::<_, GetFileInfoResponse>("getFileInfo", &request).await.unwrap_err();
            let other = namenode.statistics("alice").await.unwrap_err();
            for error in [own, other] {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
                assert_eq!(error.message(), "User alice is not authorized");
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    }
}
