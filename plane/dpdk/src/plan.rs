//! A device as its configuration names it, before it is probed.

use crate::devargs::Devargs;
use crate::driver::Treatment;
use crate::error::DpdkError;
use crate::interface::Interface;
use crate::packet_socket::Ring;
use crate::port::Spec;

/// Bytes of an Ethernet header and one VLAN tag, which an MTU does not count.
pub(crate) const LINK_BYTES: u32 = 14 + 4;

/// Facts known before the device is probed.
pub(crate) struct Plan<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) device: Devargs,
    pub(crate) treatment: Treatment,
    pub(crate) interface: Option<Interface>,
    /// Ring of af_packet's sockets.
    pub(crate) ring: Option<Ring>,
    /// Reason for which packets are copied.
    pub(crate) copied: Option<String>,
    pub(crate) notes: Vec<String>,
}

impl<'a> Plan<'a> {
    /// `room`: the longest frame that fits a buffer of the region.
    pub(crate) fn make(spec: &'a Spec, room: u32) -> Result<Self, DpdkError> {
        let mut device = Devargs::parse(&spec.device)?;
        let treatment = Treatment::of(&device);
        let asked = (!spec.direct).then_some("the configuration says direct = false");
        let copied = treatment.copied.or(asked).map(str::to_owned);
        let interface = device.kernel_interface().map(|name| find_interface(&device, name)).transpose()?;
        if let Some(mtu) = spec.mtu {
            check_mtu(&device, interface.as_ref(), mtu, room)?;
        }
        let ring = complete(&mut device, spec.queues, room)?;
        if copied.is_none() && device.get("infinite_rx").is_some_and(|value| value != "0") {
            let why = "infinite_rx keeps the whole capture in packet buffers; \
                       use a port of kind = \"pcap\" with mode = \"loop\"";
            return Err(DpdkError::BadDevargs { devargs: spec.device.clone(), why });
        }
        Ok(Self { spec, device, treatment, interface, ring, copied, notes: Vec::new() })
    }
}

fn find_interface(device: &Devargs, name: &str) -> Result<Interface, DpdkError> {
    Interface::find(name).ok_or_else(|| DpdkError::NoInterface {
        device: device.name().to_owned(),
        interface: name.to_owned(),
        present: Interface::present(),
    })
}

fn check_mtu(device: &Devargs, interface: Option<&Interface>, mtu: u16, room: u32) -> Result<(), DpdkError> {
    let frame_bytes = u32::from(mtu) + LINK_BYTES;
    let name = device.name().to_owned();
    if frame_bytes > room {
        return Err(DpdkError::BuffersTooSmall { device: name, mtu, frame_bytes, room });
    }
    let is = interface.and_then(|interface| interface.mtu().ok());
    match (is, device.kernel_interface()) {
        (Some(is), Some(interface)) if is != u32::from(mtu) => {
            Err(DpdkError::OtherMtu { device: name, interface: interface.to_owned(), is, wanted: mtu })
        }
        _ => Ok(()),
    }
}

/// Adds to a device's arguments what its driver needs and the configuration need not say. Returns the
/// shape of af_packet's rings.
fn complete(device: &mut Devargs, queues: u16, room: u32) -> Result<Option<Ring>, DpdkError> {
    match device.driver() {
        "net_af_packet" | "net_af_xdp" if device.get("iface").is_none() => {
            let why = "it needs an interface, like net_af_packet0,iface=veth0";
            Err(DpdkError::BadDevargs { devargs: device.to_string(), why })
        }
        "net_af_xdp" => {
            one_for_each(device, "queue_count", queues)?;
            Ok(None)
        }
        "net_af_packet" => {
            one_for_each(device, "qpairs", queues)?;
            if ["framesz", "blocksz", "framecnt"].iter().all(|key| device.get(key).is_none()) {
                Ring::fitting(room).describe(device);
            }
            let why = "framesz, blocksz and framecnt are numbers, and a block holds at least a frame";
            let bad = || DpdkError::BadDevargs { devargs: device.to_string(), why };
            Ring::of(device).ok_or_else(bad).map(Some)
        }
        _ => Ok(None),
    }
}

/// The driver's own count of queues is the port's: packets of a queue that nobody polls would be lost.
fn one_for_each(device: &mut Devargs, key: &str, queues: u16) -> Result<(), DpdkError> {
    if device.get(key).is_some_and(|given| given != queues.to_string()) {
        let why = "qpairs or queue_count differs from the port's `queues`; leave it out";
        return Err(DpdkError::BadDevargs { devargs: device.to_string(), why });
    }
    if queues > 1 {
        device.add(key, queues);
    }
    Ok(())
}
