//! Properties of each driver, by reading DPDK 22.11.11 and by trying it.
//!
//! A driver that is not named here is treated as a network card's: direct, with receive rings.

use std::ffi::CStr;

use crate::devargs::Devargs;
use crate::ffi;

/// Drivers that make a device out of a name, as opposed to those that find one on a bus, and the
/// library each is in.
const VIRTUAL: [(&str, &str); 12] = [
    ("net_af_packet", "af_packet"),
    ("net_af_xdp", "af_xdp"),
    ("net_bonding", "bond"),
    ("net_failsafe", "failsafe"),
    ("net_memif", "memif"),
    ("net_null", "null"),
    ("net_pcap", "pcap"),
    ("net_ring", "ring"),
    ("net_tap", "tap"),
    ("net_tun", "tap"),
    ("net_vhost", "vhost"),
    ("net_virtio_user", "virtio"),
];

/// Receive descriptors of a queue whose driver fills a ring with buffers beforehand. Our choice: at
/// 1 Mpps half a millisecond, 1.1 MiB of buffers.
const RING_DESCRIPTORS: u16 = 512;

/// Treatment of a device's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatment {
    /// Reason for which it cannot receive into the packet region; `None` when it can.
    pub copied: Option<&'static str>,
    /// Receive descriptors asked for; the driver may round them.
    pub descriptors: u16,
    /// Whether it fills its receive ring with as many buffers beforehand.
    pub fills_ring: bool,
    /// Whether what was sent and not received again has to be fetched out before it closes.
    pub keeps_sent: bool,
    /// Whether frames longer than its MTU make it stop (tap) or vanish (af_packet), so that they must
    /// not reach it.
    pub obeys_mtu: bool,
    /// Whether it makes an interface of the kernel, which is the device.
    pub makes_interface: bool,
    /// Whether frames can come with a checksum that the kernel left to a card.
    pub leaves_checksums: bool,
}

impl Treatment {
    /// Returns the treatment of `device`'s driver.
    #[must_use]
    pub fn of(device: &Devargs) -> Self {
        let usual = Self {
            copied: None,
            descriptors: RING_DESCRIPTORS,
            fills_ring: false,
            keeps_sent: false,
            obeys_mtu: false,
            makes_interface: matches!(device.driver(), "net_tap" | "net_tun"),
            leaves_checksums: matches!(device.driver(), "net_af_packet" | "net_af_xdp"),
        };
        match device.driver() {
            // Both take a buffer when a packet comes and free it when one is sent. pcap writes whatever
            // length there is; null checks none.
            "net_null" | "net_pcap" => usual,
            "net_af_packet" => Self { obeys_mtu: true, ..usual },
            "net_memif" if device.get("zero-copy") == Some("yes") => Self {
                copied: Some("memif with zero-copy=yes hands its peer all of the pool's memory"),
                ..usual
            },
            "net_memif" => usual,
            // Takes a buffer for each descriptor and, without scatter, only ever uses the first.
            "net_tap" | "net_tun" => Self { descriptors: 1, fills_ring: true, obeys_mtu: true, ..usual },
            "net_ring" => Self { keeps_sent: true, ..usual },
            "net_af_xdp" => Self {
                copied: Some("af_xdp's packet memory holds DPDK's own bookkeeping, which NFs must not see"),
                obeys_mtu: true,
                ..usual
            },
            _ => Self { fills_ring: true, obeys_mtu: true, ..usual },
        }
    }
}

/// Drivers of virtual devices that are installed.
#[must_use]
pub fn installed() -> Vec<String> {
    let folder = CStr::from_bytes_with_nul(ffi::RTE_EAL_PMD_PATH).unwrap_or_default().to_string_lossy();
    let there = |library: &str| {
        std::path::Path::new(folder.as_ref()).join(format!("librte_net_{library}.so")).exists()
    };
    VIRTUAL.iter().filter(|(_, library)| there(library)).map(|&(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(device: &str) -> Treatment {
        Treatment::of(&Devargs::parse(device).unwrap())
    }

    #[test]
    fn drivers_are_told_apart() {
        assert_eq!(of("net_null0").copied, None);
        assert!(of("net_af_xdp0,iface=veth0").copied.is_some());
        assert_eq!(of("net_memif0,role=client").copied, None);
        assert!(of("net_memif0,zero-copy=yes").copied.is_some());
        assert!(of("0000:00:05.0").fills_ring);
    }

    #[test]
    fn the_usual_drivers_are_installed() {
        for driver in ["net_af_packet", "net_af_xdp", "net_memif", "net_null", "net_pcap", "net_tap"] {
            assert!(installed().iter().any(|name| name == driver), "{driver}");
        }
    }
}
