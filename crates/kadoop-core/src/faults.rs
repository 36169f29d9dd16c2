//! Faults that the simulation plants, to check that it notices them.
//!
//! Without the feature `simulation`, [`Faults`] is empty, and [`Faults::has`] is always false at
//! compile time.

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A breach of the protocol. Each variant's text says what the faulty code does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// All faults.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// The log's frames are written, never synced.
    LogNotSynced,
    /// A new log segment's name isn't synced.
    SegmentNameNotSynced,
    /// The namenode assumes at a start that all log bytes it reads are on disk.
    LogEndTrusted,
    /// The log's mark is written before the records are on disk.
    MarkedEarly,
    /// The log's mark is written only when the namenode starts.
    MarkForgotten,
    /// A start doesn't compare the log's end with its mark.
    MarkIgnored,
    /// The namenode doesn't compare its log with the points that datanodes remember.
    HistoryIgnored,
    /// Records of starts and joins count when the log's end is compared with a datanode's memory, so
    /// they hide lost records.
    JoinsCounted,
    /// After a start, changes don't wait for a datanode, which may know of lost records.
    UnheardBelieved,
    /// New ids and stamps may lie below those of an admitted datanode.
    AdmittedBelow,
    /// A flush without new bytes doesn't ask the members.
    OldFlushBelieved,
    /// The reader of the log accepts a torn frame.
    TornFrameRead,
    /// A checkpoint is renamed before it is synced.
    CheckpointNotSynced,
    /// A checkpoint isn't compared with its checksums.
    CheckpointUnchecked,
    /// Only the newest checkpoint is kept, with the log after it.
    CheckpointKeptAlone,
    /// A checkpoint lacks the files' minima of replicas.
    MinimumNotSaved,
    /// Log segments are removed before the checkpoint that replaces them is complete.
    LogDroppedEarly,
    /// A repeated request is executed again.
    RetryExecuted,
    /// Request ids are dropped when the log is replayed.
    RetryNotReplayed,
    /// Recovery treats a returned replica as one that ran unbroken.
    ReturnedBelieved,
    /// Recovery believes a restarted datanode that says it never saw the chunk.
    AbsenceBelieved,
    /// Recovery decides although no member has answered.
    SilenceBelieved,
    /// Recovery waits forever for a datanode that is gone and that an operator has decommissioned.
    GoneAwaited,
    /// A writer doesn't learn that its chunk was ended below the acknowledged length.
    LossHidden,
    /// Recovery reuses the pipeline's own stamp.
    StampReused,
    /// Chunks are added and files completed without the lease.
    LeaseNotChecked,
    /// A file is closed before its last chunk is durable anywhere.
    CompleteNotDurable,
    /// A chunk's end counts as durable with one replica, whatever the file's minimum.
    DurableOnce,
    /// A full report doesn't remove replicas of the datanode's earlier reports that it lacks.
    ReportAdded,
    /// In a datanode's new session, replicas of the former session count before it reports them again.
    UnreportedCounted,
    /// The namenode processes the rest of a full report after its datanode has begun another session.
    FormerReportContinued,
    /// Replicas of a full report count before the namenode knows that all belong to the log's history.
    ReportUnchecked,
    /// Replicas that a full report lists as damaged count until the whole report is processed.
    DamageToldLate,
    /// A full report overrules what a writer said while the report was being processed.
    WrittenForgotten,
    /// A writer's statement about a datanode's former run overrules a full report of the current run.
    FormerRunOverrules,
    /// Replicas are placed on any rack.
    RacksIgnored,
    /// A datanode that has moved stays on its former rack.
    RackKept,
    /// Superfluous replicas are removed from any rack.
    SpreadForgotten,
    /// A replica of another stamp or length counts.
    StaleReplicaCounted,
    /// Superfluous replicas are removed without counting the good ones.
    LastReplicaDeleted,
    /// A replica still counts after the namenode has ordered its deletion.
    DeletionNotCounted,
    /// Replicas on a datanode that is being decommissioned still count.
    LeavingCounted,
    /// After a cancelled decommission, a datanode's replicas count before it reports them again.
    ComebackBelieved,
    /// A moved replica is deleted before its copy is reported.
    MovedEarly,
    /// An append's new chunk replaces the old one at once.
    ReplacedEarly,
    /// Chunks that an append replaced are dropped before the new chunk has its replicas.
    KeptDroppedEarly,
    /// Readers get a truncated chunk at its full length.
    TruncationForgotten,
    /// A survey of a tree for its removal misses changes in parts that it has already examined.
    SurveyedOnce,
    /// Files are joined in another order.
    JoinedBackwards,
    /// Urgent orders wait for their datanodes' next heartbeats.
    NobodyRoused,
    /// Datanodes write under any stamp.
    StaleStampAccepted,
    /// Datanodes write for any incarnation.
    IncarnationIgnored,
    /// A datanode forgets the fence of a chunk that it doesn't have.
    FenceForgotten,
    /// `sync` leaves the data in memory.
    DataNotSynced,
    /// `sync` leaves the checksums in memory.
    SumsNotSynced,
    /// If there was no room on the disk for checksums, `sync` succeeds without them.
    RecordsForgotten,
    /// `sync` leaves a new replica's name in memory.
    NameNotSynced,
    /// `seal` renames files that it hasn't synced.
    SealNotSynced,
    /// `seal` doesn't sync the directory.
    SealNameNotSynced,
    /// A seal that synced without the lock succeeds without a second check of its stamp.
    SealTrusted,
    /// After a failed sync, the datanode syncs the same file again and believes a success.
    FailedSyncRepeated,
    /// A replica's files are closed unsynced when too many are open.
    ClosedUnsynced,
    /// A start trusts a table of checksums, though a crash may have lost some of the bytes.
    TableTrusted,
    /// An open replica's checksums are overwritten in place.
    SumsInPlace,
    /// A start believes the names of a replica's files, though their contents name another replica.
    ReplicaUnproven,
    /// A replica that a start finds open stays open, as if the datanode had never stopped.
    ReturnedReopened,
    /// A write that arrived out of order is acknowledged before it is applied.
    EarlyWriteAnswered,
    /// Bytes written in place are applied without a second check of stamp and incarnation.
    PlaceTrusted,
    /// A datanode that lost a directory continues its former session.
    FormerRunBelieved,
    /// A sealed replica is cut again.
    SealedCut,
    /// Readers see bytes that aren't acknowledged.
    UnpublishedShown,
    /// A writer counts a write as acknowledged after one member's answer.
    FirstAnswerEnough,
    /// A writer forgets unacknowledged bytes when a pipeline breaks.
    UnacknowledgedDropped,
    /// A writer seals a broken chunk at the published length.
    SealedAtPublished,
    /// `flush` returns before a broken chunk's end is logged.
    FlushedBeforeEnd,
    /// `sync` doesn't wait for the chunks before the open one.
    SyncForgetsEarlier,
    /// Readers don't compare bytes with their checksums.
    SumsNotChecked,
    /// A reader believes a single datanode's statement that an open chunk has no more bytes.
    AbsenceRead,
    /// A reader continues in another file that now has the file's name.
    ReplacementRead,
    /// A copy isn't compared with its checksums.
    CopyNotVerified,
    /// An incomplete copy is sealed.
    CopyCutShort,
}

/// At most one planted fault.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    #[cfg(feature = "simulation")]
    planted: Option<Fault>,
}

impl Faults {
    /// No planted fault.
    pub const NONE: Self = Self {
        #[cfg(feature = "simulation")]
        planted: None,
    };

    /// Plants `fault`.
    #[cfg(feature = "simulation")]
    pub const fn planted(fault: Fault) -> Self {
        Self { planted: Some(fault) }
    }

    /// Whether `fault` was planted.
    #[cfg(feature = "simulation")]
    pub fn has(self, fault: Fault) -> bool {
        self.planted == Some(fault)
    }

    /// Whether `fault` was planted: never without the feature `simulation`.
    #[cfg(not(feature = "simulation"))]
    pub const fn has(self, _: Fault) -> bool {
        false
    }
}
