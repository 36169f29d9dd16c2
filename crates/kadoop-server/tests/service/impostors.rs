//! Clients never believe an impostor at a datanode's address. Acknowledged bytes are there in the
//! end, and readers get no others.

use crate::support::{
    Cluster, client, client_over_tcp, datanode, names, pattern, place, rpc, signed_read, superuser,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, socket_with};
use std::{
    net::SocketAddr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};
use strait_flexrpc::{
    Fault, Forwarding, MulticastOptions, Reply, Request, Server, ServerOptions, Service,
    stub::{Callees, Pattern, ServiceError},
};
use strait_kadoop_client::CreateOptions;
use strait_kadoop_core::Identity;
use strait_kadoop_server::DatanodeOptions;
use strait_kadoop_wire::{
    proofs::{Answer, Asked, Procedure, unsigned},
    tokens::Token,
    wire::{
        self, KadoopDatanodeV1Callees, KdAnswer, KdLender, KdMutation, KdNewChunk, KdPiece, KdRead,
        KdRequest, KdTold, KdUpto, KdWrite,
    },
};
use strait_testkit::wait::{eventually, obtained};
use strait_xdr::from_shared;
use tempfile::TempDir;

const READ: u32 = Procedure::Read as u32;
const LENDER: u32 = Procedure::Lender as u32;
const STALE_STAMP: u32 = wire::Refusal::RefusedStaleStamp as u32;
const NO_REPLICA: u32 = wire::Refusal::RefusedNoReplica as u32;

/// An impostor's answer.
#[derive(Clone)]
pub enum Lie {
    /// Success, with a made-up proof.
    Done([u8; 16]),
    /// An answer that ends before its proof does.
    Short,
    /// An empty answer, as if nothing had to be proven.
    Empty,
    /// A real datanode's answer to another call.
    Earlier(KdTold),
    /// A refusal, as an answer without a proof or as a plain fault.
    Refused(u32),
    Fault(u32),
}

/// Serves at an address, and records the calls.
pub struct Impostor {
    _server: Server,
    asked: Arc<Mutex<Vec<u32>>>,
    /// The socket at which it claims to lend files.
    lends: OwnedFd,
    _directory: TempDir,
}

struct Lies {
    lie: Lie,
    asked: Arc<Mutex<Vec<u32>>>,
    socket: PathBuf,
}

impl Service for Lies {
    fn call(&self, request: &Request, reply: &mut Reply) -> Result<(), ServiceError> {
        let procedure = request.procedure.number;
        self.asked.lock().unwrap().push(procedure);
        let told = match &self.lie {
            Lie::Done(proof) => KdTold { refused: 0, proof: *proof },
            Lie::Earlier(told) => *told,
            Lie::Refused(refused) => KdTold { refused: *refused, proof: [0; 16] },
            Lie::Fault(number) => return Err(ServiceError::Fault(Fault::application(*number, "gone"))),
            Lie::Short => {
                reply.put(&[0; 16]);
                return Ok(());
            }
            Lie::Empty => return Ok(()),
        };
        let answer = match procedure {
            READ => {
                let read: KdRead = from_shared(request.args.clone()).unwrap();
                let bytes = vec![b'?'; read.length as usize];
                let sums = bytes.chunks(4_096).map(crc32c::crc32c).collect();
                let visible = read.offset + read.length;
                strait_xdr::to_vec(&KdPiece { told, bytes: bytes.into(), sums, visible }).unwrap()
            }
            LENDER => {
                let path = self.socket.as_os_str().as_bytes().to_vec().into();
                strait_xdr::to_vec(&KdLender { told, path, run: 1 }).unwrap()
            }
            _ => strait_xdr::to_vec(&told).unwrap(),
        };
        reply.put(&answer);
        Ok(())
    }
}

impl Impostor {
    /// Starts as soon as the address is free.
    pub fn at(listen: SocketAddr, lie: Lie) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("lender.sock");
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let lends = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        bind(&lends, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
        rustix::net::listen(&lends, 8).unwrap();
        let server = obtained("a server at the port", || {
            let options = ServerOptions {
                listen,
                udp: false,
                forwarding: Forwarding::only(|_| true),
                payload_bytes: 5 << 20,
                ..ServerOptions::default()
            };
            let lies = Lies { lie: lie.clone(), asked: Arc::clone(&asked), socket: socket.clone() };
            type Real = wire::KadoopDatanodeV1Server<()>;
            Server::builder(options).register(Real::PROGRAM, Real::VERSION, lies).start().ok()
        });
        Self { _server: server, asked, lends, _directory: directory }
    }

    /// Whether a client has tried to borrow from it, which would reveal the request.
    fn lends(&self) -> bool {
        accept(&self.lends).is_ok()
    }

    fn was_asked(&self, procedure: u32) -> bool {
        self.asked.lock().unwrap().contains(&procedure)
    }
}

fn of(replication: u16) -> CreateOptions {
    CreateOptions { replication, ..CreateOptions::default() }
}

/// A file's nearest chunk, and its places.
fn located(cluster: &Cluster, path: &str) -> (wire::KdLocatedChunk, Vec<(SocketAddr, Identity)>) {
    let me = wire::KdCaller { user: "kadoop".into(), groups: Vec::new() };
    let mut found = names(cluster).nn_locate(&me, &path.into(), 0, 1).unwrap();
    let chunk = found.chunks.remove(0);
    let host = |node: &u32| place(found.hosts.iter().find(|host| host.node == *node).unwrap());
    (chunk.clone(), chunk.nodes.iter().map(host).collect())
}

/// While a file of two replicas is being written, one of its datanodes dies and an impostor takes
/// its port. All bytes acknowledged from then on must be there after the impostor has gone.
fn nothing_is_lost_to(lie: Lie, member: usize) {
    let mut cluster = Cluster::start(3);
    let client = client_over_tcp(&cluster.namenode);
    let bytes = pattern(3 << 20);
    let mut writer = client.create(&superuser(), "/file", &of(2)).unwrap();
    writer.write(bytes.slice(..1 << 20)).unwrap();
    writer.flush().unwrap();
    // Locations list open members by number; the pipeline's order differs.
    let (_, places) = located(&cluster, "/file");
    let (address, _) = places[member];
    cluster.stop(address);
    let impostor = Impostor::at(address, lie);
    writer.write(bytes.slice(1 << 20..2 << 20)).unwrap();
    writer.sync().unwrap();
    assert!(!impostor.asked.lock().unwrap().is_empty(), "the impostor was never met");
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, bytes.len()).unwrap() == bytes[..2 << 20]);
    writer.write(bytes.slice(2 << 20..)).unwrap();
    writer.close().unwrap();
    drop(impostor);
    let reader = client_over_tcp(&cluster.namenode).open(&superuser(), "/file").unwrap();
    assert!(reader.length() == bytes.len() as u64 && reader.read_at(0, bytes.len()).unwrap() == bytes);
}

#[test]
fn a_made_up_acknowledgement_isnt_believed_wherever_in_the_pipeline() {
    nothing_is_lost_to(Lie::Done([0; 16]), 0);
    nothing_is_lost_to(Lie::Done([0xa5; 16]), 1);
}

#[test]
fn an_acknowledgement_that_is_cut_short_or_empty_isnt_believed() {
    nothing_is_lost_to(Lie::Short, 0);
    nothing_is_lost_to(Lie::Empty, 1);
}

/// From a real datanode, a refusal for a stale stamp tells a writer that its lease is lost.
#[test]
fn a_refusal_without_a_proof_ends_nobodys_lease() {
    nothing_is_lost_to(Lie::Refused(STALE_STAMP), 0);
    nothing_is_lost_to(Lie::Fault(STALE_STAMP), 1);
}

#[test]
fn an_earlier_acknowledgement_of_the_same_datanode_isnt_believed_again() {
    let cluster = Cluster::start(1);
    let mut writer = client_over_tcp(&cluster.namenode).create(&superuser(), "/file", &of(1)).unwrap();
    writer.write(pattern(100)).unwrap();
    writer.close().unwrap();
    let (chunk, places) = located(&cluster, "/file");
    let (address, identity) = places[0];
    let answer = datanode(address).dn_read(&signed_read(&chunk, &chunk.token, identity)).unwrap();
    nothing_is_lost_to(Lie::Earlier(answer.told), 0);
}

/// With one replica there is no alternative, so a reader waits for the datanode itself.
#[test]
fn an_impostors_bytes_arent_read_and_its_word_that_there_are_none_isnt_believed() {
    for lie in [Lie::Done([1; 16]), Lie::Refused(NO_REPLICA), Lie::Fault(NO_REPLICA)] {
        let mut cluster = Cluster::start(1);
        let bytes = pattern(300_000);
        let mut writer = client_over_tcp(&cluster.namenode).create(&superuser(), "/file", &of(1)).unwrap();
        writer.write(bytes.clone()).unwrap();
        writer.close().unwrap();
        // This client would borrow a replica's files, too.
        let reader = client(&cluster.namenode).open(&superuser(), "/file").unwrap();
        let address = cluster.datanode_addresses()[0];
        cluster.stop(address);
        let impostor = Impostor::at(address, lie);
        thread::scope(|scope| {
            let read = scope.spawn(|| reader.read_at(0, bytes.len()).unwrap());
            eventually("a client reads from the impostor", || impostor.was_asked(READ));
            assert!(impostor.was_asked(LENDER), "nobody wanted to borrow");
            assert!(!impostor.lends(), "a client would borrow from it");
            drop(impostor);
            cluster.add(DatanodeOptions { listen: address, ..cluster.datanode_options(0) });
            assert!(read.join().unwrap() == bytes);
        });
    }
}

/// The real datanode's answer to a call, with the signed call.
fn answered(cluster: &Cluster, path: &str) -> (KdPiece<'static>, Asked, (SocketAddr, Identity)) {
    let (chunk, places) = located(cluster, path);
    let (chunk_number, stamp) = (chunk.chunk, chunk.stamp);
    let mut read =
        KdRead { pass: unsigned(), chunk: chunk_number, stamp, offset: 0, length: 9_000, acknowledged: 0 };
    let asked = Token::new(&chunk.token).sign(&mut read, Procedure::Read, places[0].1);
    (datanode(places[0].0).dn_read(&read).unwrap(), asked, places[0])
}

#[test]
fn a_proof_is_of_its_call_its_datanode_and_all_that_it_says() {
    let cluster = Cluster::start(1);
    let mut writer = client_over_tcp(&cluster.namenode).create(&superuser(), "/file", &of(1)).unwrap();
    writer.write(pattern(9_000)).unwrap();
    writer.close().unwrap();
    let (piece, asked, (_, identity)) = answered(&cluster, "/file");
    let (later, asked_later, _) = answered(&cluster, "/file");
    assert!(asked.is_proven(&piece, identity) && asked_later.is_proven(&later, identity));
    // Answers for the same bytes, by the same datanode.
    assert!(!asked.is_proven(&later, identity) && !asked_later.is_proven(&piece, identity));
    assert!(!asked.is_proven(&piece, Identity(identity.0 ^ 1)), "one member vouches for another");
    let changed = |change: &dyn Fn(&mut KdPiece<'static>)| {
        let mut piece = piece.clone();
        change(&mut piece);
        asked.is_proven(&piece, identity)
    };
    assert!(changed(&|_| ()));
    assert!(!changed(&|piece| piece.visible += 1));
    assert!(!changed(&|piece| piece.sums[2] ^= 1));
    assert!(!changed(&|piece| piece.sums.truncate(2)));
    assert!(!changed(&|piece| piece.bytes = vec![0; 8_999].into()));
    assert!(!changed(&|piece| piece.told.refused = NO_REPLICA));
    for at in 0..16 {
        assert!(!changed(&|piece| piece.told.proof[at] ^= 0x80));
    }
}

/// All members of a pipeline get the same call, and the first member forwards their answers.
#[test]
fn a_member_of_a_pipeline_cant_vouch_for_others_nor_make_another_call_of_what_it_was_told() {
    let cluster = Cluster::start(2);
    let (chunk, places) = begun(&cluster);
    let (numbers, token) = ((chunk.chunk, chunk.stamp), Token::new(&chunk.token));
    let bytes = pattern(100).to_vec().into();
    let mut write = KdWrite {
        pass: unsigned(),
        chunk: numbers.0,
        stamp: numbers.1,
        pipeline: chunk.pipeline.clone(),
        offset: 0,
        bytes,
    };
    let asked = token.sign_write(&mut write);
    let callees = Callees {
        client: rpc(None),
        addresses: places.iter().map(|(address, _)| *address).collect(),
        pattern: Pattern::Serial,
        options: MulticastOptions::default(),
    };
    let told = KadoopDatanodeV1Callees { callees }.dn_write(&write).unwrap();
    let told: Vec<KdTold> = told.into_iter().map(Result::unwrap).collect();
    for (at, told) in told.iter().enumerate() {
        let believed = places.iter().map(|(_, identity)| asked.is_proven(told, *identity));
        assert_eq!(believed.collect::<Vec<_>>(), [at == 0, at == 1]);
    }
    let at = |member: usize| datanode(places[member].0);
    // The same bytes at another offset, or in another pipeline.
    assert!(at(1).dn_write(&KdWrite { offset: 100, ..write.clone() }).is_err());
    assert!(at(1).dn_write(&KdWrite { pipeline: chunk.pipeline[1..].to_vec(), ..write.clone() }).is_err());
    // A call to one member is valid neither at the other, nor as another procedure.
    let mut upto = KdUpto { pass: write.pass, chunk: numbers.0, stamp: numbers.1, length: 100 };
    assert!(at(1).dn_publish(&upto).is_err());
    token.sign(&mut upto, Procedure::Publish, places[0].1);
    assert!(at(1).dn_publish(&upto).is_err() && at(0).dn_seal(&upto).is_err());
    assert_eq!(at(0).dn_publish(&upto).unwrap().told().refused, 0);
}

/// A new empty chunk, and its pipeline.
fn begun(cluster: &Cluster) -> (KdNewChunk<'static>, Vec<(SocketAddr, Identity)>) {
    let mut names = names(cluster);
    let me = wire::KdCaller { user: "kadoop".into(), groups: Vec::new() };
    let client = names.nn_join(&wire::KdHello { features: 0 }).unwrap().client;
    let mut ask =
        |number, what| names.nn_mutate(&me, &KdRequest { client, number, done_below: 0 }, &what).unwrap();
    let create = wire::KdCreate {
        path: "/file".into(),
        overwrite: false,
        mode: 0o644,
        replication: 2,
        chunk_bytes: 1 << 20,
    };
    let KdAnswer::KdOpened(opened) = ask(1, KdMutation::KdCreate(create)) else { panic!("not made") };
    let add = wire::KdAddChunk { file: opened.file, ends: Vec::new(), next: true, avoid: Vec::new() };
    let KdAnswer::KdChunk(added) = ask(2, KdMutation::KdAddChunk(add)) else { panic!("not begun") };
    let chunk = *added.next.unwrap();
    let place =
        |of: &wire::KdPlace<'_>| (of.address.as_str().unwrap().parse().unwrap(), Identity(of.identity));
    let places = chunk.places.iter().map(place).collect();
    (chunk, places)
}
