//! Determines the user for whom a call acts.
//!
//! AUTH_SYS is only a claim: any program can send any user's number. On loopback, the kernel's table of
//! sockets shows which user runs the program. Beyond loopback, the server can't check the claim.

use crate::fault::{Answer, Fault};
use crate::wire::N3Status;
use strait_flexrpc::stub::Request;
use strait_flexrpc::{Credentials, overflow_user};
use strait_store::names::Names;
use strait_store::{FileStatus, Principal, SessionSecret};
use strait_telemetry::seldom;

/// Rules for callers.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Whether to accept each claimed user number. Otherwise a claim counts only if the caller's socket
    /// belongs to that user or to root. (The sockets of the kernel's NFS client belong to root.)
    pub trust_uids: bool,
    /// Whether root acts as the store's user root. Otherwise root acts as nobody.
    pub no_root_squash: bool,
    /// Names of users by their numbers. They take precedence over this host's names. If the list has root,
    /// root acts under that name.
    pub users: Vec<(u32, String)>,
    /// The user for whom all calls act, if the store can't act for each caller. Then only calls of this
    /// process's user and of `users` are accepted.
    pub only: Option<Principal>,
}

/// Maps the callers of one export to users.
pub struct Callers {
    rules: Rules,
    names: Names,
    nobody: Principal,
    /// The session of the callers' writers.
    session: Option<SessionSecret>,
}

impl Callers {
    /// Maps callers by these rules.
    pub fn new(rules: Rules, session: Option<SessionSecret>) -> Self {
        let names = rules.only.as_ref().map_or_else(Names::default, |only| Names::new(&only.user));
        Self { nobody: names.user(overflow_user()), rules, names, session }
    }

    /// The user for whom a call acts.
    ///
    /// # Errors
    /// `Acces`: all calls act for one user ([`Rules::only`]), and this caller isn't accepted.
    pub fn principal(&self, call: &Request) -> Answer<Principal> {
        Ok(Principal { session: self.session, ..self.user(call)? })
    }

    fn user(&self, call: &Request) -> Answer<Principal> {
        let claimed = match &call.credentials {
            Credentials::Sys(sys) => Some(sys.uid),
            Credentials::None => None,
        };
        let shown = |uid: u32| call.local_user.is_some_and(|owner| owner == uid || owner == 0);
        let uid = claimed.filter(|uid| self.rules.trust_uids || shown(*uid));
        let named = uid.and_then(|uid| self.rules.users.iter().find(|(known, _)| *known == uid));
        let squashed = uid == Some(0) && !self.rules.no_root_squash;
        let user = match (named, uid) {
            (Some((_, name)), _) => Some(Principal::new(name)),
            (None, Some(uid)) if !squashed => Some(self.names.user(uid)),
            _ => None,
        };
        let Some(only) = &self.rules.only else { return Ok(user.unwrap_or_else(|| self.nobody.clone())) };
        let own = uid == Some(nix::unistd::geteuid().as_raw());
        if user.is_some() && (own || named.is_some()) {
            return Ok(only.clone());
        }
        let who = claimed.map_or_else(|| "without a user".to_owned(), |uid| format!("of user {uid}"));
        seldom!(
            info,
            "refused a call {who} from {}: the store acts only for {}; see --map-uid and --no-root-squash",
            call.peer,
            only.user
        );
        Err(Fault(N3Status::Acces))
    }

    /// The number of an owner.
    pub fn uid(&self, name: &str) -> u32 {
        let mapped = self.rules.users.iter().find(|(_, known)| known == name);
        mapped.map_or_else(|| self.names.uid(name), |(uid, _)| *uid)
    }

    /// The number of a group.
    pub fn gid(&self, name: &str) -> u32 {
        self.names.gid(name)
    }

    /// The name of a user's number.
    pub fn user_name(&self, uid: u32) -> String {
        let mapped = self.rules.users.iter().find(|(known, _)| *known == uid);
        mapped.map_or_else(|| self.names.user(uid).user.to_string(), |(_, name)| name.clone())
    }

    /// The permission bits (4, 2 and 1) that a user perhaps has on a file; all of them if the store doesn't
    /// keep permissions (`has_permissions`). They can be too many, since only the store knows the user's
    /// groups. They are too few only for superusers of the store other than root. The store decides when the
    /// user accesses the file.
    pub fn bits(&self, who: &Principal, status: &FileStatus, has_permissions: bool) -> u32 {
        let [one, other] = self.possible(who, status, has_permissions);
        one | other
    }

    /// The permission bits that a user surely has, whatever the user's groups are.
    pub fn sure_bits(&self, who: &Principal, status: &FileStatus, has_permissions: bool) -> u32 {
        let [one, other] = self.possible(who, status, has_permissions);
        one & other
    }

    /// The user's bits if the user is in the file's group, and if not. They are equal if the group doesn't
    /// matter for this user.
    fn possible(&self, who: &Principal, status: &FileStatus, has_permissions: bool) -> [u32; 2] {
        if !has_permissions || self.rules.only.is_some() || &*who.user == "root" {
            return [7; 2];
        }
        if *who.user == *status.owner {
            return [status.permission >> 6 & 7; 2];
        }
        [status.permission >> 3 & 7, status.permission & 7]
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use strait_flexrpc::{AuthSys, CallId, Procedure, SessionId, Transport};

    /// A call by a claimed user, from a socket of `local_user`.
    pub fn call(claimed: Option<u32>, local_user: Option<u32>) -> Request {
        let sys = |uid| Credentials::Sys(AuthSys { uid, ..AuthSys::default() });
        Request {
            procedure: Procedure::new(100_003, 3, 1),
            args: Default::default(),
            credentials: claimed.map_or(Credentials::None, sys),
            authenticated: false,
            local_user,
            holder: None,
            encrypted: false,
            peer: ([127, 0, 0, 1], 700).into(),
            transport: Transport::Tcp,
            deadline: None,
            id: CallId { session: SessionId::NONE, handle: 0, transaction: 1 },
        }
    }

    /// The user for whom a call acts.
    fn user(rules: &Rules, claimed: Option<u32>, local_user: Option<u32>) -> Option<String> {
        let who = Callers::new(rules.clone(), None).principal(&call(claimed, local_user));
        who.ok().map(|who| who.user.to_string())
    }

    fn nobody() -> Option<String> {
        Some(strait_store::names::user_name(overflow_user()))
    }

    #[test]
    fn a_claim_counts_if_the_socket_is_that_users_or_roots() {
        let rules = Rules::default();
        let known = Some("2147480001".to_owned());
        assert_eq!(user(&rules, Some(2_147_480_001), Some(2_147_480_001)), known);
        assert_eq!(user(&rules, Some(2_147_480_001), Some(0)), known);
        for owner in [Some(2_147_480_002), None] {
            assert_eq!(user(&rules, Some(2_147_480_001), owner), nobody(), "{owner:?}");
        }
        assert_eq!(user(&rules, None, Some(2_147_480_001)), nobody());
        let trusting = Rules { trust_uids: true, ..Rules::default() };
        assert_eq!(user(&trusting, Some(2_147_480_001), None), known);
    }

    #[test]
    fn root_is_nobody_unless_the_rules_say_otherwise() {
        let squashed = Rules::default();
        assert_eq!(user(&squashed, Some(0), Some(0)), nobody());
        let root = Rules { no_root_squash: true, ..Rules::default() };
        assert_eq!(user(&root, Some(0), Some(0)).as_deref(), Some("root"));
        assert_eq!(user(&root, Some(0), Some(1000)), nobody(), "an invented root");
        let mapped = Rules { users: vec![(0, "ada".into())], ..Rules::default() };
        assert_eq!(user(&mapped, Some(0), Some(0)).as_deref(), Some("ada"));
    }

    #[test]
    fn a_store_of_one_user_serves_that_user_and_those_of_the_map() {
        let own = nix::unistd::geteuid().as_raw();
        let only = Some(Principal::new("ada"));
        let rules = Rules { only, no_root_squash: true, users: vec![(4711, "x".into())], ..Rules::default() };
        assert_eq!(user(&rules, Some(own), Some(own)).as_deref(), Some("ada"));
        assert_eq!(user(&rules, Some(4711), Some(4711)).as_deref(), Some("ada"));
        assert_eq!(user(&rules, Some(4712), Some(4712)), None);
        assert_eq!(user(&rules, None, Some(own)), None);
    }

    #[test]
    fn mapped_names_have_their_numbers() {
        let callers = Callers::new(Rules { users: vec![(4711, "ada".into())], ..Rules::default() }, None);
        assert_eq!((callers.uid("ada"), callers.user_name(4711)), (4711, "ada".to_owned()));
        assert_eq!((callers.uid("root"), callers.gid("root")), (0, 0));
    }
}
