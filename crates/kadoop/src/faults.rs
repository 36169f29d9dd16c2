//! Faults that the simulation plants, to see that it would notice them.
//!
//! Without the feature `simulation` a [`Faults`] holds nothing and every question
//! is answered "no" at compile time.

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One breach of the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// The log's frames are written, never synced.
    LogNotSynced,
    /// A new log segment's name isn't synced.
    SegmentNameNotSynced,
    /// What a start reads of the log is taken to be on disk.
    LogEndTrusted,
    /// A torn frame is read as good.
    TornFrameRead,
    /// A checkpoint is renamed before it is synced.
    CheckpointNotSynced,
    /// Log segments go before the checkpoint that replaces them is whole.
    LogDroppedEarly,
    /// A repeated request is executed again.
    RetryExecuted,
    /// Request ids aren't taken up when the log is replayed.
    RetryNotReplayed,
    /// Recovery takes a returned replica for one that ran unbroken.
    ReturnedBelieved,
    /// Recovery believes a restarted datanode that it never saw the chunk.
    AbsenceBelieved,
    /// Recovery decides without any member having answered.
    SilenceBelieved,
    /// A writer isn't told that a chunk of its was ended at less than was acknowledged.
    LossHidden,
    /// Recovery uses the pipeline's own stamp again.
    StampReused,
    /// Chunks are added and files completed without the lease.
    LeaseNotChecked,
    /// A file is closed before its last chunk is durable anywhere.
    CompleteNotDurable,
    /// A replica of another stamp or length counts.
    StaleReplicaCounted,
    /// Superfluous replicas are removed without counting those that are good.
    LastReplicaDeleted,
    /// A replica that was told to go still counts.
    DeletionNotCounted,
    /// Replicas count as before on a datanode that is being decommissioned.
    LeavingCounted,
    /// Those of one that is to stay after all count before it has told what it still has.
    ComebackBelieved,
    /// A replica that is moved goes before its copy is there.
    MovedEarly,
    /// An append's new chunk replaces the old one at once.
    ReplacedEarly,
    /// What an append has replaced goes before the new chunk has its replicas.
    KeptDroppedEarly,
    /// A truncated chunk is handed out at its full length.
    TruncationForgotten,
    /// Datanodes write under any stamp.
    StaleStampAccepted,
    /// Datanodes write for any incarnation.
    IncarnationIgnored,
    /// A fence of a chunk that isn't there is forgotten.
    FenceForgotten,
    /// `sync` leaves the data in memory.
    DataNotSynced,
    /// `sync` leaves the checksums in memory.
    SumsNotSynced,
    /// `sync` leaves a new replica's name in memory.
    NameNotSynced,
    /// `seal` renames what it hasn't synced.
    SealNotSynced,
    /// `seal` doesn't sync the directory.
    SealNameNotSynced,
    /// What a sync failed for is synced again, and believed.
    FailedSyncRepeated,
    /// A table of checksums is trusted at the start, though a crash may have left the bytes behind.
    TableTrusted,
    /// An open replica's checksums are overwritten in place.
    SumsInPlace,
    /// A replica found open at the start goes on as if it had never stopped.
    ReturnedReopened,
    /// A write that came early is acknowledged before it is applied.
    EarlyWriteAnswered,
    /// Bytes in their place are applied without a second look at stamp and incarnation.
    PlaceTrusted,
    /// A datanode that lost a directory goes on in the session that it had before.
    FormerRunBelieved,
    /// A sealed replica is cut again.
    SealedCut,
    /// Bytes that aren't acknowledged are shown to readers.
    UnpublishedShown,
    /// A writer takes a write for acknowledged when one member has answered.
    FirstAnswerEnough,
    /// A writer forgets what was sent and not acknowledged when a pipeline breaks.
    UnacknowledgedDropped,
    /// A writer seals a broken chunk at what it told to be acknowledged.
    SealedAtPublished,
    /// `flush` returns before a broken chunk's end is logged.
    FlushedBeforeEnd,
    /// `sync` doesn't wait for the chunks before the open one.
    SyncForgetsEarlier,
    /// Readers don't compare bytes with their checksums.
    SumsNotChecked,
    /// A reader takes one datanode's word that an open chunk has no more.
    AbsenceRead,
    /// A reader goes on in another file that has the name now.
    ReplacementRead,
    /// A copy isn't compared with its checksums.
    CopyNotVerified,
    /// A copy that isn't complete is sealed.
    CopyCutShort,
}

/// At most one planted fault.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    #[cfg(feature = "simulation")]
    planted: Option<Fault>,
}

impl Faults {
    /// None.
    pub const NONE: Self = Self {
        #[cfg(feature = "simulation")]
        planted: None,
    };

    /// With `fault`.
    #[cfg(feature = "simulation")]
    pub const fn planted(fault: Fault) -> Self {
        Self { planted: Some(fault) }
    }

    /// Whether `fault` was planted.
    #[cfg(feature = "simulation")]
    pub fn has(self, fault: Fault) -> bool {
        self.planted == Some(fault)
    }

    /// Whether `fault` was planted: never, in a program.
    #[cfg(not(feature = "simulation"))]
    pub const fn has(self, _: Fault) -> bool {
        false
    }
}
