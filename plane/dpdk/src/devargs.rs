//! Names of devices: `net_af_packet0,iface=veth0` or `0000:00:05.0`, as EAL takes it.

use crate::error::DpdkError;

/// A device description, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devargs {
    name: String,
    arguments: Vec<(String, String)>,
}

impl Devargs {
    /// Takes a description apart.
    ///
    /// # Errors
    /// [`DpdkError::BadDevargs`] when there is no name or an argument is not `key=value`.
    pub fn parse(devargs: &str) -> Result<Self, DpdkError> {
        let bad = |why| DpdkError::BadDevargs { devargs: devargs.to_owned(), why };
        if devargs.contains('\0') {
            return Err(bad("it holds a zero byte"));
        }
        let mut parts = devargs.split(',');
        let name = parts.next().unwrap_or_default();
        if name.is_empty() {
            return Err(bad("it starts with the device's name, like net_tap0 or 0000:00:05.0"));
        }
        let pair = |part: &str| part.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let arguments: Option<Vec<_>> = parts.map(pair).collect();
        let arguments = arguments.ok_or_else(|| bad("each argument is written ,key=value"))?;
        Ok(Self { name: name.to_owned(), arguments })
    }

    /// The device's name: `net_af_packet0`, `0000:00:05.0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The driver a virtual device's name stands for: the name without its number.
    #[must_use]
    pub fn driver(&self) -> &str {
        self.name.trim_end_matches(|digit: char| digit.is_ascii_digit())
    }

    /// Whether the device is on the PCI bus.
    #[must_use]
    pub fn is_pci(&self) -> bool {
        self.name.contains(':')
    }

    /// An argument's value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.arguments.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Adds an argument unless it is given already.
    pub(crate) fn add(&mut self, key: &str, value: impl ToString) {
        if self.get(key).is_none() {
            self.arguments.push((key.to_owned(), value.to_string()));
        }
    }

    /// The kernel interface whose packets the device takes, if it takes any: `iface` of af_packet and
    /// af_xdp, an interface that pcap listens or sends on, and the interface whose packets tap
    /// redirects to itself (`remote`). tap's own `iface` is one it makes.
    #[must_use]
    pub fn kernel_interface(&self) -> Option<&str> {
        let keys: &[&str] = match self.driver() {
            "net_af_packet" | "net_af_xdp" => &["iface"],
            "net_pcap" => &["iface", "rx_iface", "rx_iface_in", "tx_iface"],
            "net_tap" | "net_tun" => &["remote"],
            _ => &[],
        };
        keys.iter().find_map(|key| self.get(key))
    }
}

impl std::fmt::Display for Devargs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.arguments.iter().try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

/// The kernel interface that a device would take packets from, see [`Devargs::kernel_interface`].
#[must_use]
pub fn kernel_interface(devargs: &str) -> Option<String> {
    Devargs::parse(devargs).ok()?.kernel_interface().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_taken_apart_and_put_together() {
        let mut device = Devargs::parse("net_af_packet12,iface=veth0,qpairs=2").unwrap();
        assert_eq!((device.name(), device.driver()), ("net_af_packet12", "net_af_packet"));
        assert_eq!(device.get("qpairs"), Some("2"));
        device.add("qpairs", 4);
        device.add("framesz", 2048);
        assert_eq!(device.to_string(), "net_af_packet12,iface=veth0,qpairs=2,framesz=2048");
    }

    #[test]
    fn kernel_interfaces_are_found_by_driver() {
        let of = kernel_interface;
        assert_eq!(of("net_af_packet0,iface=veth0").as_deref(), Some("veth0"));
        assert_eq!(of("net_af_xdp1,start_queue=0,iface=eth1").as_deref(), Some("eth1"));
        assert_eq!(of("net_pcap0,rx_iface=lo,tx_pcap=out.pcap").as_deref(), Some("lo"));
        assert_eq!(of("net_tap0,iface=mine"), None);
        assert_eq!(of("net_tap0,iface=mine,remote=eth0").as_deref(), Some("eth0"));
        assert_eq!(of("0000:00:05.0"), None);
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for bad in ["", ",iface=veth0", "net_null0,size", "net_null0,", "net_null0\0"] {
            assert!(matches!(Devargs::parse(bad), Err(DpdkError::BadDevargs { .. })), "{bad:?}");
        }
        assert!(Devargs::parse("0000:00:05.0,x=1").unwrap().is_pci());
    }
}
