//! Opening of a device: it is found, set up, started.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use headgate_shm::Stack;
use headgate_shm::geometry::STRIDE_MAX;

use crate::checksums::Checksums;
use crate::copied::Copied;
use crate::device::{Device, control};
use crate::direct::Direct;
use crate::dma::Window;
use crate::driver;
use crate::error::DpdkError;
use crate::interface::{self, Interface};
use crate::packet_socket::{PacketSockets, Ring};
use crate::plan::{LINK_BYTES, Plan};
use crate::pool::RegionPool;
use crate::port::{self, Facts, Opened, Port, Spec};
use crate::private_pool::PrivatePool;
use crate::queue::{Lane, Queue};
use crate::watch::Watch;
use crate::{eal, ffi, files, log};
use headgate_port::QueueCounters;

/// Send descriptors asked for; the driver may round them. As many as DPDK's examples take.
const SEND_DESCRIPTORS: u16 = 512;

pub(crate) fn open(spec: &Spec, stack: &mut Stack) -> Result<Opened, DpdkError> {
    let mut plan = Plan::make(spec, stack.region().geometry().frame_bytes_max())?;
    eal::ensure(plan.device.is_pci().then(|| plan.device.to_string()).as_deref())?;
    let pool = match plan.copied {
        None => Some(RegionPool::of(stack.region())?),
        Some(_) => None,
    };
    let (device, sockets) = plan.find()?;
    let device = Arc::new(device);
    match files::opened_during(|| plan.start(&device, &sockets, pool.as_ref(), stack)).0 {
        Ok(opened) => Ok(opened),
        Err(error) => {
            port::end(device, pool.as_deref(), stack);
            Err(error)
        }
    }
}

impl Plan<'_> {
    /// Makes or finds the device; returns it and the files it opened.
    fn find(&self) -> Result<(Device, Vec<RawFd>), DpdkError> {
        let mut open = control();
        if open.contains(self.device.name()) {
            return Err(DpdkError::OpenAlready { device: self.device.name().to_owned() });
        }
        let devargs = CString::new(self.device.to_string()).unwrap_or_default();
        // SAFETY: a terminated string.
        let probe = || unsafe { ffi::rte_dev_probe(devargs.as_ptr()) };
        let ((code, said), files) = files::opened_during(|| log::during(probe));
        // A PCI device was found when the environment layer started, if it was started for it.
        if code < 0 && code != -libc::EEXIST {
            let installed = driver::installed();
            let known = self.device.is_pci() || installed.iter().any(|name| name == self.device.driver());
            if !known {
                let device = self.device.name().to_owned();
                return Err(DpdkError::NoDriver { device, drivers: installed });
            }
            return Err(self.refused("opening it", code, self.with_hint(said)));
        }
        let (name, driver) = (self.device.name(), self.device.driver());
        let device = Device::named(name, driver, self.treatment.keeps_sent, self.spec.queues)
            .ok_or_else(|| self.refused("finding it", -libc::ENODEV, said))?;
        open.insert(name.to_owned());
        Ok((device, files))
    }

    /// Adds what the driver could have seen and does not say.
    fn with_hint(&self, mut said: log::Said) -> log::Said {
        let down = self.interface.as_ref().is_some_and(|interface| !interface.is_running());
        if let (true, Some(name)) = (down, self.device.kernel_interface()) {
            let join = if said.0.is_empty() { "" } else { "; " };
            said.0.push_str(&format!("{join}the interface is down: `ip link set dev {name} up`"));
        }
        said
    }

    fn start(
        &mut self,
        device: &Arc<Device>,
        files: &[RawFd],
        pool: Option<&Arc<RegionPool>>,
        stack: &mut Stack,
    ) -> Result<Opened, DpdkError> {
        let _control = control();
        let info =
            device.info().ok_or_else(|| self.refused("asking what it can do", -1, log::Said::default()))?;
        if info.max_rx_queues.min(info.max_tx_queues) < self.spec.queues {
            return Err(DpdkError::TooFewQueues {
                device: self.device.name().to_owned(),
                receive: info.max_rx_queues,
                send: info.max_tx_queues,
                wanted: self.spec.queues,
            });
        }
        self.take_interface(device, files)?;
        if let (Some(pool), true) = (pool, self.device.is_pci()) {
            let window = Window::open(device.handle(), pool);
            let window = window.map_err(|cause| self.failed("letting it reach the packet region", cause))?;
            device.resources().window = Some(window);
        }
        self.configure(device, &info)?;
        let held = self.set_up_queues(device, pool, stack)?;
        device.resources().started = true;
        self.receive_all_addresses(device);
        self.note_program();
        let lanes = held.iter().enumerate().map(|(number, &held)| {
            let lane = self.lane(device, number as u16);
            match pool {
                Some(pool) => Queue::direct(lane, Direct::new(Arc::clone(pool), stack.id(), held)),
                None => {
                    let private = Arc::clone(&device.resources().private[number]);
                    Queue::copied(lane, Copied::new(private))
                }
            }
        });
        let queues = lanes.collect();
        let facts = self.facts(device, &info);
        let watch = Watch::of(device, self.interface.as_ref(), &self.treatment);
        let port = Port::new(Arc::clone(device), pool.cloned(), watch, self.device.is_pci());
        Ok(Opened { queues, facts, port })
    }

    /// Prepares a device over a kernel interface before its driver's sockets are used.
    fn take_interface(&mut self, device: &Device, files: &[RawFd]) -> Result<(), DpdkError> {
        let Some(interface) = &self.interface else { return Ok(()) };
        if let Some(ring) = self.ring {
            let sockets = PacketSockets::replace(&self.device, ring, interface, files);
            let sockets = sockets.map_err(|cause| self.failed("exchanging its sockets", cause))?;
            device.resources().sockets = Some(sockets);
        }
        if matches!(self.device.driver(), "net_af_packet" | "net_af_xdp") {
            let membership = interface::promiscuous(interface);
            let membership =
                membership.map_err(|cause| self.failed("taking packets for all addresses", cause))?;
            device.resources().promiscuous = Some(membership);
        }
        Ok(())
    }

    fn note_program(&mut self) {
        if let ("net_af_xdp", Some(name)) = (self.device.driver(), self.device.kernel_interface()) {
            self.notes.push(format!(
                "its XDP program stays on {name} if the manager is killed; \
                 `ip link set dev {name} xdp off` takes it away"
            ));
        }
    }

    fn configure(&self, device: &Device, info: &ffi::rte_eth_dev_info) -> Result<(), DpdkError> {
        let mut wanted = ffi::rte_eth_conf::default();
        if self.interface.is_none() {
            // 0 leaves it to the driver.
            wanted.rxmode.mtu = self.spec.mtu.map_or(0, u32::from);
        }
        if self.ring.is_some() {
            // The kernel takes VLAN tags out of the frame. The driver cannot put them back into pinned
            // external memory and logs each failure; this keeps it from trying, and we do it.
            wanted.rxmode.offloads = info.rx_offload_capa & ffi::HG_RX_VLAN_STRIP;
        }
        let flows = info.flow_type_rss_offloads & ffi::HG_RSS_FLOWS;
        if self.spec.queues > 1 && flows != 0 {
            wanted.rxmode.mq_mode = ffi::rte_eth_rx_mq_mode_RTE_ETH_MQ_RX_RSS;
            wanted.rx_adv_conf.rss_conf.rss_hf = flows;
        }
        let queues = self.spec.queues;
        // SAFETY: the port exists; DPDK copies the structure.
        self.step("configuring it", || unsafe {
            ffi::rte_eth_dev_configure(device.port, queues, queues, &raw const wanted)
        })
    }

    /// Sets the queues up and starts the device; returns how many buffers each took.
    fn set_up_queues(
        &self,
        device: &Device,
        pool: Option<&Arc<RegionPool>>,
        stack: &mut Stack,
    ) -> Result<Vec<i64>, DpdkError> {
        let given = stack.len();
        let (mut receive, mut send) = (self.treatment.descriptors, SEND_DESCRIPTORS);
        // SAFETY: the port is configured; rounds both numbers to what the driver takes.
        self.step("choosing the length of its rings", || unsafe {
            ffi::rte_eth_dev_adjust_nb_rx_tx_desc(device.port, &raw mut receive, &raw mut send)
        })?;
        // SAFETY: the port exists.
        let node = unsafe { ffi::rte_eth_dev_socket_id(device.port) }.max(0) as u32;
        let mut held = vec![0; usize::from(self.spec.queues)];
        for (number, held) in (0..self.spec.queues).zip(&mut held) {
            let mempool = self.pool_of_queue(device, pool)?;
            // SAFETY: a configured port, one of its queues, and a pool that the device keeps alive.
            let set_up = || unsafe {
                let defaults = std::ptr::null();
                match ffi::rte_eth_rx_queue_setup(device.port, number, receive, node, defaults, mempool) {
                    0 => ffi::rte_eth_tx_queue_setup(device.port, number, send, node, std::ptr::null()),
                    refused => refused,
                }
            };
            self.allocating("setting a queue up", pool, given, stack, held, set_up)?;
        }
        let mut rings = 0;
        // SAFETY: a configured port with all its queues.
        let start = || unsafe { ffi::rte_eth_dev_start(device.port) };
        self.allocating("starting it", pool, given, stack, &mut rings, start)?;
        // Most drivers fill all receive rings when they start; each ring is as long as the others.
        let share = rings / i64::from(self.spec.queues);
        held.iter_mut().for_each(|held| *held += share);
        held[0] += rings - share * i64::from(self.spec.queues);
        Ok(held)
    }

    fn pool_of_queue(
        &self,
        device: &Device,
        pool: Option<&Arc<RegionPool>>,
    ) -> Result<*mut ffi::rte_mempool, DpdkError> {
        let mut resources = device.resources();
        if let Some(pool) = pool {
            resources.region = Some(Arc::clone(pool));
            return Ok(pool.raw());
        }
        let private = PrivatePool::create(self.device.name())?;
        let raw = private.raw();
        resources.private.push(private);
        Ok(raw)
    }

    /// A step in which the driver may take buffers.
    fn allocating(
        &self,
        name: &'static str,
        pool: Option<&Arc<RegionPool>>,
        given: usize,
        stack: &mut Stack,
        held: &mut i64,
        call: impl FnOnce() -> c_int,
    ) -> Result<(), DpdkError> {
        let (code, said) = log::during(|| match pool {
            Some(pool) => pool.with(stack, held, call),
            None => call(),
        });
        let short = pool.is_some() && stack.len() < usize::from(self.treatment.descriptors);
        match code {
            0.. => Ok(()),
            _ if short && self.treatment.fills_ring => {
                Err(DpdkError::NoBuffers { device: self.device.name().to_owned(), given, said })
            }
            _ => Err(self.refused(name, code, said)),
        }
    }

    fn receive_all_addresses(&mut self, device: &Device) {
        if self.interface.is_some() || matches!(self.device.driver(), "net_tap" | "net_tun") {
            return;
        }
        // SAFETY: the port is started.
        let refused = unsafe { ffi::rte_eth_promiscuous_enable(device.port) } < 0;
        if refused && self.device.is_pci() {
            self.notes.push("takes only packets for its own address".to_owned());
        }
    }

    fn lane(&self, device: &Arc<Device>, number: u16) -> Lane {
        let mut sent_bytes_max = u32::MAX;
        if self.treatment.obeys_mtu {
            sent_bytes_max = self.mtu(device) + LINK_BYTES;
        }
        if let Some(ring) = self.ring {
            sent_bytes_max = sent_bytes_max.min(ring.sent_bytes_max());
        }
        if let Some(private) = device.resources().private.first() {
            sent_bytes_max = sent_bytes_max.min(private.frame_bytes_max());
        }
        let received_bytes_max = self.ring.map_or(u32::MAX, Ring::received_bytes_max);
        let checksums = self.treatment.leaves_checksums.then(|| Checksums::new(STRIDE_MAX));
        let counters = QueueCounters::default();
        Lane { device: Arc::clone(device), number, received_bytes_max, sent_bytes_max, checksums, counters }
    }

    /// The MTU of the interface below, or what the driver says.
    fn mtu(&self, device: &Device) -> u32 {
        if let Some(Ok(mtu)) = self.interface.as_ref().map(Interface::mtu) {
            return mtu;
        }
        let mut mtu = 0;
        // SAFETY: the port exists; fills the number.
        let refused = unsafe { ffi::rte_eth_dev_get_mtu(device.port, &raw mut mtu) } < 0;
        if refused || mtu == 0 { 1500 } else { u32::from(mtu) }
    }

    fn facts(&mut self, device: &Arc<Device>, info: &ffi::rte_eth_dev_info) -> Facts {
        let lane = self.lane(device, 0);
        let longest = lane.received_bytes_max.min(lane.sent_bytes_max);
        let interface = self.device.kernel_interface().map(str::to_owned);
        if self.interface.as_ref().is_some_and(|interface| !interface.is_running()) {
            self.notes.push("the interface is down, or what it is joined to is".to_owned());
        }
        let there = self.interface.as_ref().and_then(|interface| interface.mtu().ok());
        if let Some(mtu) = there.filter(|mtu| mtu + LINK_BYTES > longest) {
            let frame_bytes = mtu + LINK_BYTES;
            let buffer_bytes = self.ring.map_or(frame_bytes, |_| Ring::room_for(frame_bytes));
            self.notes.push(format!(
                "the interface has mtu {mtu}, and frames above {longest} bytes are lost as too long; \
                 raise memory.buffer_bytes to {buffer_bytes} or lower the mtu"
            ));
        }
        let mut address = ffi::rte_ether_addr::default();
        // SAFETY: the port exists; fills the address.
        let known = unsafe { ffi::rte_eth_macaddr_get(device.port, &raw mut address) } == 0;
        // SAFETY: a string of the driver's, or null.
        let driver = (!info.driver_name.is_null()).then(|| unsafe { CStr::from_ptr(info.driver_name) });
        Facts {
            driver: driver
                .map_or_else(|| self.device.driver().to_owned(), |it| it.to_string_lossy().into_owned()),
            device: self.device.to_string(),
            copied: self.copied.clone(),
            mac: known.then_some(address.addr_bytes),
            frame_bytes_max: (longest != u32::MAX).then_some(longest),
            interface,
            notes: std::mem::take(&mut self.notes),
        }
    }

    fn step(&self, name: &'static str, call: impl FnOnce() -> c_int) -> Result<(), DpdkError> {
        let (code, said) = log::during(call);
        if code < 0 { Err(self.refused(name, code, said)) } else { Ok(()) }
    }

    fn refused(&self, step: &'static str, code: c_int, said: log::Said) -> DpdkError {
        // Most drivers return -1 for whatever went wrong, and log the reason.
        let (cause, said) = match code {
            -1 if said.0.is_empty() => {
                let why = "the driver gives no reason; its arguments are in DPDK's guide of drivers";
                (io::Error::other(why), said)
            }
            -1 => (io::Error::other(said.0), log::Said::default()),
            _ => (io::Error::from_raw_os_error(-code), said),
        };
        DpdkError::Refused { device: self.device.name().to_owned(), step, cause, said }
    }

    fn failed(&self, step: &'static str, cause: io::Error) -> DpdkError {
        DpdkError::Refused { device: self.device.name().to_owned(), step, cause, said: log::Said::default() }
    }
}
