//! `mac-swap`: exchanges source and destination address, as a reflector at the end of a wire does.

use headgate_nf::wire::ethernet::Frame;
use headgate_nf::{Burst, Context, NetworkFunction, NfError};
use serde::Deserialize;

use crate::catalog::{Entry, entry};

pub(crate) const ENTRY: Entry = Entry {
    takes_long_frames: true,
    ..entry("mac-swap", "exchanges source and destination MAC address", |context| {
        Ok(Box::new(MacSwap::new(context)?))
    })
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {}

/// The NF.
pub struct MacSwap;

impl MacSwap {
    /// Takes no arguments.
    ///
    /// # Errors
    /// Any argument is an error.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let Arguments {} = context.arguments()?;
        Ok(Self)
    }
}

impl NetworkFunction for MacSwap {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            // A frame in a burst has at least an Ethernet header.
            if let Ok(mut frame) = Frame::new(packet.data_mut()) {
                frame.swap_addresses();
            }
        }
    }

    fn takes_long_frames(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_nf::testing::{Harness, Setup};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_change_places_and_nothing_else(frame in prop::collection::vec(any::<u8>(), 14..2000)) {
            let mut harness = Harness::new(Setup::default(), MacSwap::new).unwrap();
            let (_, swapped) = harness.run(&[&frame]).remove(0);
            prop_assert_eq!(&swapped[..6], &frame[6..12]);
            prop_assert_eq!(&swapped[6..12], &frame[..6]);
            prop_assert_eq!(&swapped[12..], &frame[12..]);
        }
    }
}
