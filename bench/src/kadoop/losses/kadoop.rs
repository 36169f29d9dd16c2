//! Kadoop, as processes of `strait namenode` and `strait datanode`.

use super::{DATANODES, Loss, Lossy, REPLICATION, Suffered};
use crate::Result;
use crate::kadoop::rack::{FIRST_DATANODE, Rack};
use bytes::Bytes;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use strait_kadoop_client::CreateOptions;
use strait_kadoop_wire::Failure;
use strait_testkit::wait_until;

/// Longest wait until the file is whole again: enough for the namenode to declare a datanode dead, and for
/// copies at less than a link's rate.
const WHOLE_DEADLINE: Duration = Duration::from_secs(120);
const PIECE_BYTES: usize = 1 << 20;

/// A cluster that loses datanodes.
pub struct KadoopRack(Rack);

impl KadoopRack {
    pub fn start() -> Result<Self> {
        Ok(Self(Rack::start(DATANODES)?))
    }

    /// Writes the file, and returns the duration of the longest write. Signals when half of the file is
    /// written.
    fn write(
        &self,
        path: &str,
        mib: usize,
        half_way: &mpsc::Sender<()>,
    ) -> std::result::Result<Duration, Failure> {
        let piece: Bytes = (0..PIECE_BYTES).map(|at| (at.wrapping_mul(37) >> 3) as u8).collect();
        let options = CreateOptions { replication: REPLICATION, ..CreateOptions::default() };
        let mut writer = self.0.client.create(&self.0.caller, path, &options)?;
        let mut longest = Duration::ZERO;
        for number in 0..mib {
            if number == mib / 2 {
                // The receiver lives until this function returns.
                let _ = half_way.send(());
            }
            let start = Instant::now();
            writer.write(piece.clone())?;
            longest = longest.max(start.elapsed());
        }
        writer.close()?;
        Ok(longest)
    }

    /// A datanode in the pipeline of the newest chunk.
    fn victim(&self) -> Result<usize> {
        let newest = |number: usize| {
            let entries = std::fs::read_dir(self.0.data(number));
            let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
            let names = names.filter_map(|name| name.into_string().ok());
            // Chunks' numbers increase, and file names begin with them.
            names.filter(|name| name.ends_with(".open")).max()
        };
        let members = (0..DATANODES).filter_map(|number| Some((newest(number)?, number)));
        Ok(members.max().ok_or("no datanode has a replica that is being written")?.1)
    }

    fn is_whole(&self, path: &str, bytes: u64) -> bool {
        let found = self.0.client.locations(&self.0.caller, path, 0, u64::MAX).unwrap_or_default();
        found.iter().map(|part| part.length).sum::<u64>() == bytes
            && found.iter().all(|part| part.hosts.len() == usize::from(REPLICATION))
    }
}

impl Lossy for KadoopRack {
    fn name(&self) -> &'static str {
        "Kadoop"
    }

    fn lose(&mut self, loss: Loss, path: &str, mib: usize) -> Result<Suffered> {
        let (half_way, is_half_way) = mpsc::channel();
        let (longest, victim, lost_at) = std::thread::scope(|scope| -> Result<_> {
            let this = &*self;
            let writing = scope.spawn(move || {
                let written = this.0.host().run(|| this.write(path, mib, &half_way));
                written.map_err(|failure| failure.to_string())
            });
            is_half_way.recv().map_err(|_| "the writer ended early")?;
            let victim = this.victim()?;
            let lost_at = Instant::now();
            match loss {
                Loss::Killed => this.0.kill_datanode(victim),
                Loss::Unplugged => this.0.network.unplug(FIRST_DATANODE + victim)?,
            }
            let longest = writing.join().map_err(|_| "the writer panicked")??;
            Ok((longest, victim, lost_at))
        })?;
        let whole = || self.is_whole(path, (mib * PIECE_BYTES) as u64);
        if !self.0.host().run(|| wait_until(WHOLE_DEADLINE, whole)) {
            return Err(format!("{path} isn't whole after {WHOLE_DEADLINE:?}").into());
        }
        let whole_again = lost_at.elapsed();
        match loss {
            Loss::Killed => self.0.restart_datanode(victim)?,
            Loss::Unplugged => self.0.network.plug(FIRST_DATANODE + victim)?,
        }
        self.0.wait_for_all()?;
        self.0.host().run(|| self.0.client.delete(&self.0.caller, path, false))?;
        Ok(Suffered { longest_write_s: longest.as_secs_f64(), whole_again_s: whole_again.as_secs_f64() })
    }
}
