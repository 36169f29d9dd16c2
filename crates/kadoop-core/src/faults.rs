//! Faults that the simulation plants, to check that it notices them.
//!
//! Without the feature `simulation` a [`Faults`] holds nothing, and the compiler resolves every
//! question to "no".

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
    /// The namenode assumes at a start that all log bytes it reads are on disk.
    LogEndTrusted,
    /// The log's mark is written before the records are on disk.
    MarkedEarly,
    /// The log's mark is written at a start only.
    MarkForgotten,
    /// A start doesn't compare the log's end with its mark.
    MarkIgnored,
    /// The namenode doesn't compare its log with the points that datanodes remember.
    HistoryIgnored,
    /// Starts and joins make up for lost records.
    JoinsCounted,
    /// Changes don't wait for a datanode that may know more than the log.
    UnheardBelieved,
    /// New ids and stamps may lie below those of an admitted datanode.
    AdmittedBelow,
    /// A flush with nothing new asks nobody.
    OldFlushBelieved,
    /// A torn frame is read as good.
    TornFrameRead,
    /// A checkpoint is renamed before it is synced.
    CheckpointNotSynced,
    /// A checkpoint isn't compared with its checksums.
    CheckpointUnchecked,
    /// Only the newest checkpoint is kept, with the log behind it.
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
    /// Recovery decides without any member having answered.
    SilenceBelieved,
    /// Recovery waits for ever for a datanode that an operator has decommissioned because it is gone.
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
    /// A full report adds to the replicas of a datanode's former reports.
    ReportAdded,
    /// In a new session the replicas of the former one count before they are reported again.
    UnreportedCounted,
    /// The rest of a full report is taken after its datanode has begun another session.
    FormerReportContinued,
    /// Replicas of a full report count before all of them are known to be of the log's history.
    ReportUnchecked,
    /// Replicas that a full report tells damaged count until its end.
    DamageToldLate,
    /// A full report that is being taken overrules a writer's later word.
    WrittenForgotten,
    /// A writer's word about a datanode's former run overrules a full report of the present one.
    FormerRunOverrules,
    /// Replicas are placed on any rack.
    RacksIgnored,
    /// A datanode that has moved stays on its former rack.
    RackKept,
    /// Superfluous replicas are removed from any rack.
    SpreadForgotten,
    /// A replica of another stamp or length counts.
    StaleReplicaCounted,
    /// Superfluous replicas are removed without counting those that are good.
    LastReplicaDeleted,
    /// A replica that was ordered away still counts.
    DeletionNotCounted,
    /// Replicas on a datanode that is being decommissioned still count.
    LeavingCounted,
    /// After a cancelled decommission a datanode's replicas count before it reports them anew.
    ComebackBelieved,
    /// A moved replica is deleted before its copy is reported.
    MovedEarly,
    /// An append's new chunk replaces the old one at once.
    ReplacedEarly,
    /// Chunks that an append replaced are dropped before the new chunk has its replicas.
    KeptDroppedEarly,
    /// A truncated chunk is handed out at its full length.
    TruncationForgotten,
    /// Changes in a tree that is surveyed for its removal go unnoticed.
    SurveyedOnce,
    /// Files are joined in another order.
    JoinedBackwards,
    /// Orders wait for their datanodes' heartbeats.
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
    /// After checksums found no room on the disk, `sync` succeeds without them.
    RecordsForgotten,
    /// `sync` leaves a new replica's name in memory.
    NameNotSynced,
    /// `seal` renames files that it hasn't synced.
    SealNotSynced,
    /// `seal` doesn't sync the directory.
    SealNameNotSynced,
    /// A seal whose syncs were made without the lock counts without a second check of its stamp.
    SealTrusted,
    /// After a failed sync the same file is synced again, and that is believed.
    FailedSyncRepeated,
    /// A replica's files are closed unsynced when too many are open.
    ClosedUnsynced,
    /// A start trusts a table of checksums, though a crash may have lost some of the bytes.
    TableTrusted,
    /// An open replica's checksums are overwritten in place.
    SumsInPlace,
    /// A start believes the name of a replica's files, though they name another one.
    ReplicaUnproven,
    /// A replica found open at a start stays open, as if its datanode had never stopped.
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
    /// A reader believes a single datanode that an open chunk has no more bytes.
    AbsenceRead,
    /// A reader continues in another file that has the name now.
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
