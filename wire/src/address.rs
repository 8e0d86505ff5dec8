//! Link-layer addresses. IP addresses are those of [`core::net`].

use core::{fmt, str::FromStr};

/// An IEEE 802 48-bit MAC address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it names a group: multicast, and broadcast with it (the I/G bit, IEEE 802 §8.2).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 0x01 != 0
    }

    /// Whether it was given by an administrator and not by a manufacturer (the U/L bit, IEEE 802 §8.2).
    #[inline]
    pub const fn is_local(self) -> bool {
        self.0[0] & 0x02 != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddressError;

impl fmt::Display for MacAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address: write six two-digit hexadecimal numbers, such as 02:00:00:00:00:01")
    }
}

impl core::error::Error for MacAddressError {}

impl FromStr for MacAddress {
    type Err = MacAddressError;

    /// Reads `02:00:00:00:00:01` or `02-00-00-00-00-01`, in either case.
    fn from_str(text: &str) -> Result<Self, MacAddressError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut numbers = text.split(separator);
        let mut address = [0; 6];
        for octet in &mut address {
            let number = numbers.next().ok_or(MacAddressError)?;
            // `from_str_radix` alone would take "+f".
            if number.len() != 2 || !number.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(MacAddressError);
            }
            *octet = u8::from_str_radix(number, 16).map_err(|_| MacAddressError)?;
        }
        if numbers.next().is_some() { Err(MacAddressError) } else { Ok(Self(address)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_round_trip() {
        let address: MacAddress = "02:00:5E:10:00:ff".parse().unwrap();
        assert_eq!(address, MacAddress([0x02, 0x00, 0x5e, 0x10, 0x00, 0xff]));
        assert_eq!(address.to_string(), "02:00:5e:10:00:ff");
        assert_eq!("02-00-5e-10-00-ff".parse(), Ok(address));
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "+2:00:00:00:00:01",
            "02:00-00:00:00:01",
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(MacAddressError), "{text:?}");
        }
    }

    #[test]
    fn bits_of_the_first_octet() {
        assert!(MacAddress::BROADCAST.is_multicast());
        assert!(MacAddress([0x33, 0x33, 0, 0, 0, 1]).is_multicast());
        assert!(!MacAddress([0x02, 0, 0, 0, 0, 1]).is_multicast());
        assert!(MacAddress([0x02, 0, 0, 0, 0, 1]).is_local());
        assert!(!MacAddress([0x00, 0x1b, 0x21, 0, 0, 1]).is_local());
    }
}
