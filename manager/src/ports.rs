//! The configured ports, opened: their queues for the workers, and their status.

mod faults;
pub mod interfaces;
mod spec;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::sync::Arc;

use headgate_decide::units::{Instant as Moment, PortId, RegionId, Span};
use headgate_dpdk::{self as dpdk, Return};
use headgate_generator::null::{Measure, Measurements};
use headgate_generator::{self as generator, null};
use headgate_host::clock::{self, Clock, now_cycles};
use headgate_kernel::interface::{self, Kind, State, Terms};
use headgate_kernel::vxlan_gpe;
use headgate_path::ports::Device;
use headgate_pcap::{self as pcap, PcapError, RecordStatus};
use headgate_port::{Queue, QueueCounters, Setting, Timebase};
use headgate_shm::Stack;

use crate::StartError;
use crate::config::model::{Backend, Config, Dpdk, Generator, Port, Tunnel};
use crate::fabric::RegionHome;
use crate::status::{FaultStatus, PortStatus};

/// Number of stamped packets of which a null port measures one. Our choice: at full speed some million
/// samples a second remain, at a cost below a nanosecond a packet.
const MEASURE_EVERY: NonZeroU32 = NonZeroU32::new(16).expect("not zero");

/// Time between two polls of an interface. Our choice: one costs some microseconds, and nobody notices a
/// tenth of a second when a cable was pulled.
const POLL_INTERFACE_EVERY: Span = Span::from_millis(100);

/// Part of a port that remains when its queues are with the workers.
pub struct PortHome {
    name: String,
    kind: &'static str,
    detail: String,
    queues: u32,
    measured: Option<Arc<Measurements>>,
    recorded: Option<Arc<RecordStatus>>,
    /// Reason why its capture cannot be written, once it cannot.
    failure: Option<String>,
    device: Option<dpdk::Port>,
    /// The kernel's interface, if that is what it is.
    interface: Option<interface::Watch>,
    /// When its interface is polled next.
    due: Moment,
    region: usize,
    is_faulty: bool,
    /// Treatment of frames that the kernel has not cut yet, in a sentence.
    long_frames: Option<String>,
    /// What that means where its interface has no segmentation offload.
    without_offload: Option<String>,
}

/// How ports come to interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interfaces {
    /// They are opened.
    Opened,
    /// Another manager has them, and hands them over later.
    Awaited,
}

/// All ports, opened.
pub struct Opened {
    /// Queues by worker.
    pub devices: Vec<Vec<Device>>,
    /// For each port the number of queues of each worker, and the address to which service headers come.
    pub ports: Vec<(Vec<u32>, Option<[u8; 6]>)>,
    /// Remaining part of each port.
    pub homes: Vec<PortHome>,
}

struct OpenPort {
    queues: Vec<Box<dyn Queue>>,
    home: PortHome,
}

/// Opens every port of the configuration and deals its queues to the workers in turn. Devices take the
/// buffers of their receive rings from `stacks`, one for each region.
///
/// # Errors
/// [`StartError::Port`] for the first that cannot be opened.
pub fn open(
    config: &Config,
    clock: &Clock,
    stacks: &mut [Stack],
    interfaces: Interfaces,
) -> Result<Opened, StartError> {
    let workers = config.manager.cores.len();
    let mut opened =
        Opened { devices: (0..workers).map(|_| Vec::new()).collect(), ports: Vec::new(), homes: Vec::new() };
    for (number, port) in config.ports.iter().enumerate() {
        let open = open_one(config, number, port, clock, &mut stacks[port.domain.index()], interfaces)
            .map_err(|why| StartError::Port { port: port.name.clone(), why })?;
        let address = interfaces::service_address(port)
            .map_err(|why| StartError::Port { port: port.name.clone(), why })?;
        let mut dealt = vec![0; workers];
        let queues = faults::put_around(config, port, clock, number, open.queues);
        for (queue, device) in queues.into_iter().enumerate() {
            let worker = queue % workers;
            dealt[worker] += 1;
            opened.devices[worker].push(Device {
                port: PortId(number as u16),
                queue: queue as u8,
                region: RegionId(device.region().unwrap_or(port.domain.index() as u8)),
                device,
            });
        }
        opened.ports.push((dealt, address));
        opened.homes.push(open.home);
    }
    Ok(opened)
}

fn queues_wanted(config: &Config, backend: &Backend) -> u16 {
    match backend {
        Backend::Generator(_) | Backend::Null | Backend::Elsewhere { .. } => {
            config.manager.cores.len() as u16
        }
        Backend::Pcap(_) | Backend::Interface(_) | Backend::Tap { .. } | Backend::VxlanGpe(_) => 1,
        Backend::Dpdk(device) => device.queues,
    }
}

fn open_one(
    config: &Config,
    number: usize,
    port: &Port,
    clock: &Clock,
    stack: &mut Stack,
    interfaces: Interfaces,
) -> Result<OpenPort, String> {
    let setting = Setting {
        name: &port.name,
        queues: queues_wanted(config, &port.backend),
        source: number as u8,
        frame_bytes_max: stack.region().geometry().frame_bytes_max(),
        timebase: timebase(clock),
    };
    let frame_bytes = setting.frame_bytes_max;
    match &port.backend {
        Backend::Interface(one) => {
            let reached = (interfaces::kind_of(port), one.interface.as_str());
            open_interface(port, reached, one.queue, frame_bytes, interfaces)
        }
        Backend::Tap { tap } => open_interface(port, (Kind::Tap, tap), 0, frame_bytes, interfaces),
        Backend::Generator(wanted) => {
            let queues = generator::open(&wanted.spec(), &setting).map_err(|error| error.to_string())?;
            Ok(OpenPort { home: home(port, "generator", spec::describe(wanted), &queues), queues })
        }
        Backend::Pcap(wanted) => {
            let open = pcap::open(&spec::pcap(wanted), &setting).map_err(|error| error.to_string())?;
            let mut home = home(port, "pcap", spec::describe_pcap(wanted), &open.queues);
            home.recorded = open.status;
            Ok(OpenPort { queues: open.queues, home })
        }
        Backend::Null => {
            let open = null::open(measure(config), &setting);
            let mut home = home(port, "null", String::new(), &open.queues);
            home.measured = Some(open.measurements);
            Ok(OpenPort { queues: open.queues, home })
        }
        Backend::VxlanGpe(one) => open_tunnel(port, one, frame_bytes),
        Backend::Elsewhere { node } => Ok(elsewhere(port, node, &setting)),
        Backend::Dpdk(wanted) => open_dpdk(port, wanted, stack),
    }
}

/// The end of a link over a routed network.
fn open_tunnel(port: &Port, one: &Tunnel, frame_bytes: u32) -> Result<OpenPort, String> {
    let queue = vxlan_gpe::open(one.address, one.peer_address, frame_bytes);
    let queues = vec![queue.map_err(|error| error.to_string())?];
    let detail = format!("VXLAN-GPE, {} to {}", one.address, one.peer_address);
    Ok(OpenPort { home: home(port, "link", detail, &queues), queues })
}

/// A port of another node, to which nothing is sent by this queue.
fn elsewhere(port: &Port, node: &str, setting: &Setting<'_>) -> OpenPort {
    let queues = null::open(Measure::Nothing, setting).queues;
    OpenPort { home: home(port, "elsewhere", format!("at node {node}"), &queues), queues }
}

fn home(port: &Port, kind: &'static str, detail: String, queues: &[Box<dyn Queue>]) -> PortHome {
    PortHome {
        name: port.name.clone(),
        kind,
        detail: spec::with_faults(detail, port),
        queues: queues.len() as u32,
        measured: None,
        recorded: None,
        failure: None,
        device: None,
        interface: None,
        due: Moment::default(),
        region: port.domain.index(),
        is_faulty: port.faults.is_some(),
        long_frames: None,
        without_offload: None,
    }
}

fn open_interface(
    port: &Port,
    (kind, name): (Kind, &str),
    waiting: u32,
    frame_bytes: u32,
    interfaces: Interfaces,
) -> Result<OpenPort, String> {
    let terms = Terms { name: name.to_owned(), kind, waiting, frame_bytes, joins: true };
    let (queue, watch) = match interfaces {
        Interfaces::Opened => interface::open(terms).map_err(|error| error.to_string())?,
        Interfaces::Awaited => interface::await_handed(terms),
    };
    let queues = vec![queue];
    let mut home = home(port, interfaces::word(kind), name.to_owned(), &queues);
    home.interface = Some(watch);
    Ok(OpenPort { queues, home })
}

fn open_dpdk(port: &Port, wanted: &Dpdk, stack: &mut Stack) -> Result<OpenPort, String> {
    let spec = dpdk::Spec {
        device: wanted.devargs.clone(),
        queues: wanted.queues,
        direct: wanted.direct,
        mtu: None,
    };
    let open = dpdk::Port::open(&spec, stack).map_err(|error| format!("port \"{}\": {error}", port.name))?;
    let queues: Vec<Box<dyn Queue>> =
        open.queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect();
    let detail = [open.facts.to_string()].into_iter().chain(open.facts.notes.iter().cloned());
    let mut home = home(port, "dpdk", detail.collect::<Vec<_>>().join("; "), &queues);
    home.device = Some(open.port);
    Ok(OpenPort { queues, home })
}

/// Returns how a null port measures: it reads stamps only when a generator of this manager writes some.
fn measure(config: &Config) -> Measure {
    let stamps =
        |port: &Port| matches!(&port.backend, Backend::Generator(generator) if is_stamping(generator));
    if config.ports.iter().any(stamps) { Measure::Latency { every: MEASURE_EVERY } } else { Measure::Nothing }
}

const fn is_stamping(generator: &Generator) -> bool {
    generator.timestamps
}

fn timebase(clock: &Clock) -> Timebase {
    // A wall clock before 1970 dates captures at 1970.
    let unix = clock::wall();
    Timebase {
        cycles_per_second: clock.cycles_per_second(),
        cycles: now_cycles(),
        unix_ns: unix.as_nanos() as u64,
    }
}

impl PortHome {
    /// Reads the device's count of lost packets, so that its first queue counts them.
    pub fn count_losses(&self) {
        if let Some(device) = &self.device {
            let _ = device.losses();
        }
        if let Some(interface) = &self.interface {
            interface.count_losses();
        }
    }

    /// Polls its interface. Returns whether it works, and a sentence, when that has changed.
    pub fn poll_interface(&mut self, now: Moment) -> Option<(bool, String)> {
        if now < self.due {
            return None;
        }
        self.due = now + POLL_INTERFACE_EVERY;
        if let Some(watch) = &mut self.interface {
            self.without_offload = interfaces::without_offload(watch.name(), self.kind);
            let state = watch.poll()?;
            return Some((state == State::Up, interfaces::sentence(watch.name(), state, Return::ByItself)));
        }
        let device = self.device.as_mut()?;
        let state = interfaces::state_of(device.poll()?);
        let (name, returns) = device.interface()?;
        Some((state == State::Up, interfaces::sentence(&name, state, returns)))
    }

    /// Returns the state of its interface; `None` where it has none.
    fn interface_state(&self) -> Option<State> {
        let of_device = || self.device.as_ref()?.interface_state().map(interfaces::state_of);
        self.interface.as_ref().map(interface::Watch::state).or_else(of_device)
    }

    /// Lets frames that the kernel has not cut yet pass whole from now on, or has them cut; `told` says
    /// which, and why.
    pub fn treat_long_frames(&mut self, whole: bool, told: Option<String>) {
        if let Some(watch) = &self.interface {
            watch.keep_long(whole);
            let more = self.without_offload.as_deref().unwrap_or_default();
            self.long_frames = told.map(|told| told + more);
        }
    }

    /// Checks whether its capture can still be written. Returns the reason why not, once.
    pub fn check_capture(&mut self) -> Option<String> {
        let error = self.recorded.as_ref()?.take_error()?;
        let why = match error {
            // The message names the file already.
            PcapError::File { cause, mend, .. } => format!("{cause}; {mend}"),
            other => other.to_string(),
        };
        self.failure = Some(why.clone());
        Some(why)
    }

    /// Has the worker stop to use its interface, for another manager. Returns whether there is one, which
    /// [`PortHome::given_up`] has then.
    pub fn give_up(&mut self) -> bool {
        self.interface.as_mut().map(interface::Watch::give_up).is_some()
    }

    /// Returns the interface that was given up, as soon as the worker has let go of it.
    pub fn given_up(&self) -> Option<interface::Handed> {
        self.interface.as_ref()?.given_up()
    }

    /// Uses the interface that another manager gave up; `None`: it had none, and this port opens its own.
    pub fn take_up(&mut self, handed: Option<interface::Handed>) {
        match (&mut self.interface, handed) {
            (Some(watch), Some(handed)) => watch.take_up(handed),
            (Some(watch), None) => watch.miss(),
            (None, _) => {}
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Closes the device, once the workers have dropped its queues.
    pub fn close(&mut self, regions: &[RegionHome]) {
        let Some(device) = self.device.take() else { return };
        let mut stack =
            Stack::new(regions[self.region].region.clone(), self.region as u8, std::iter::empty());
        // A queue still in use would be that of a worker that panicked: the process ends anyway.
        let _ = device.close(&mut stack);
    }

    fn link(&self) -> Option<bool> {
        let interface = self.interface.as_ref().map(|watch| watch.state() == State::Up);
        interface.or_else(|| self.device.as_ref().map(|device| device.link().up))
    }

    /// Returns its status, without the counters of its queues.
    pub fn status(&self) -> PortStatus {
        let is_broken = self.recorded.as_ref().is_some_and(|status| status.is_broken());
        PortStatus {
            name: self.name.clone(),
            kind: self.kind.to_owned(),
            detail: match &self.failure {
                Some(why) => format!("{} (writing failed: {why})", self.detail),
                // Its thread has ended without a message.
                None if is_broken => format!("{} (writing failed)", self.detail),
                None => self.detail.clone(),
            },
            queues: self.queues,
            link: self.link(),
            state: self.interface_state().map(|state| state.name().to_owned()),
            long_frames: self.long_frames.clone(),
            latency: self.measured.as_ref().and_then(|measured| spec::latency(measured)),
            faults: self.is_faulty.then(FaultStatus::default),
            ..PortStatus::default()
        }
    }
}

/// Adds the counters of a queue to the status of its port.
pub fn add(status: &mut PortStatus, counters: &QueueCounters) {
    status.received += counters.received;
    status.received_bytes += counters.received_bytes;
    status.sent += counters.sent;
    status.sent_bytes += counters.sent_bytes;
    status.too_long += counters.too_long;
    status.bad_offload += counters.bad_offload;
    status.missed += counters.missed;
    status.failed += counters.failed;
    if let Some(status) = &mut status.faults {
        faults::add(status, counters);
    }
}
