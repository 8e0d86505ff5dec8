//! Captures that are replayed and written do what every queue does.

use headgate_pcap::{PcapSpec, ReplaySpec, open};
use headgate_port::Queue;
use headgate_port::testing::conformance::{Abilities, Backend, Device, Gives, run};
use headgate_port::testing::setting;
use headgate_shm::Stack;
use headgate_wire::pcap::{Records, classic};
use tempfile::TempDir;

struct Captures {
    folder: TempDir,
    reads: bool,
    writes: bool,
}

impl Backend for Captures {
    fn abilities(&self) -> Abilities {
        let gives = if self.reads { Gives::Supply { ends: true } } else { Gives::Nothing };
        let (shows_what_left, brings_long_frames) = (self.writes, self.reads);
        Abilities { gives, shows_what_left, brings_long_frames, ..Abilities::default() }
    }

    fn open(&mut self, _stack: &mut Stack, incoming: &[Vec<u8>]) -> Box<dyn Device> {
        let (read, write) = (self.folder.path().join("in.pcap"), self.folder.path().join("out.pcapng"));
        let mut capture = classic::header(0).to_vec();
        for frame in incoming {
            let length = frame.len() as u32;
            capture.extend(classic::record_header(0, length, length));
            capture.extend(frame);
        }
        // A capture without packets is refused.
        let reads = self.reads && !incoming.is_empty();
        std::fs::write(&read, capture).unwrap();
        let spec = PcapSpec {
            read: reads.then(|| ReplaySpec::new(read)),
            write: (self.writes || !reads).then_some(write.clone()),
        };
        let queue = open(&spec, &setting(1)).unwrap().queues.remove(0);
        Box::new(Capture { queue, write: self.writes.then_some(write) })
    }
}

struct Capture {
    queue: Box<dyn Queue>,
    write: Option<std::path::PathBuf>,
}

impl Device for Capture {
    fn queue(&mut self) -> &mut dyn Queue {
        &mut *self.queue
    }

    fn close(self: Box<Self>, _stack: &mut Stack) -> Vec<Vec<u8>> {
        // Waits until all is written.
        drop(self.queue);
        let Some(write) = self.write else { return Vec::new() };
        let capture = std::fs::read(write).unwrap();
        let records = Records::new(&capture).unwrap().map(Result::unwrap);
        records.map(|record| capture[record.bytes].to_vec()).collect()
    }
}

#[test]
fn captures_are_queues() {
    for (reads, writes) in [(true, false), (false, true), (true, true)] {
        run(&mut Captures { folder: TempDir::new().unwrap(), reads, writes });
    }
}
