//! `forward`: sends packets on, by one rule for all or by the port they came in. Reads none of them.

use std::collections::BTreeMap;

use headgate_nf::{ArgumentErrors, Burst, Context, NetworkFunction, NfError, Port};
use serde::Deserialize;

use crate::catalog::{Argument, Entry, entry};

pub(crate) const ENTRY: Entry = Entry {
    arguments: &[Argument {
        name: "to",
        kind: "a port's name, or a table from port of entry to port of exit",
        required: false,
        text: "where packets leave; without it, and for ports of entry the table does not name, they go on \
               to the next stage",
    }],
    takes_long_frames: true,
    ..entry("forward", "sends packets on: to the next stage, or out of a port", |context| {
        Ok(Box::new(Forward::new(context)?))
    })
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    to: To,
}

#[derive(Default, Deserialize)]
#[serde(untagged, expecting = "`to` is a port's name, or a table from port of entry to port of exit")]
enum To {
    #[default]
    Next,
    Port(String),
    ByEntry(BTreeMap<String, String>),
}

/// Destination of packets.
pub enum Forward {
    /// On to the next stage.
    Next,
    /// All packets leave by one port.
    Out(Port),
    /// By port of entry; `None` goes on to the next stage.
    ByEntry(Vec<Option<Port>>),
}

impl Forward {
    /// Reads the arguments.
    ///
    /// # Errors
    /// An unknown argument or port.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let Arguments { to } = context.arguments()?;
        let pairs = match to {
            To::Next => return Ok(Self::Next),
            To::Port(name) => {
                let port = context.port(&name);
                return Ok(Self::Out(
                    port.map_err(|unknown| ArgumentErrors::unknown(["to".into()], &unknown))?,
                ));
            }
            To::ByEntry(pairs) => pairs,
        };
        let mut exits = Vec::new();
        let mut mistakes = ArgumentErrors::default();
        for (entry, exit) in pairs {
            let ports = [context.port(&entry), context.port(&exit)];
            for unknown in ports.iter().filter_map(|port| port.as_ref().err()) {
                mistakes.add_unknown(["to".into(), entry.as_str().into()], unknown);
            }
            if let [Ok(entry), Ok(exit)] = ports {
                let place = usize::from(entry.number());
                exits.resize(exits.len().max(place + 1), None);
                exits[place] = Some(exit);
            }
        }
        mistakes.none()?;
        Ok(Self::ByEntry(exits))
    }
}

impl NetworkFunction for Forward {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        match self {
            Self::Next => {}
            Self::Out(port) => burst.send_all_to(*port),
            Self::ByEntry(exits) => {
                for mut packet in burst.packets() {
                    if let Some(Some(exit)) = exits.get(usize::from(packet.ingress().number())) {
                        packet.send_to(*exit);
                    }
                }
            }
        }
    }

    fn touches_packets(&self) -> bool {
        false
    }

    fn takes_long_frames(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_nf::Verdict;
    use headgate_nf::testing::{Arrival, Harness, Setup};
    use std::time::Duration;

    fn verdicts(arguments: &str) -> Result<Vec<Verdict>, NfError> {
        let ports = ["west", "east", "north"].map(String::from).into();
        let setup = Setup { ports, ..Setup::with(arguments) };
        let arrival = |ingress| Arrival { at: Duration::ZERO, ingress, frame: vec![0; 60] };
        let outcomes = Harness::new(setup, Forward::new)?.run_arrivals(&[0, 1, 2, 9].map(arrival));
        Ok(outcomes.into_iter().map(|(verdict, _)| verdict).collect())
    }

    #[test]
    fn packets_go_where_the_arguments_say() {
        use Verdict::{Next, Port};
        assert_eq!(verdicts("{}").unwrap(), [Next; 4]);
        assert_eq!(verdicts(r#"{"to":"east"}"#).unwrap(), [Port(1); 4]);
        let swapped = verdicts(r#"{"to":{"west":"east","east":"west"}}"#).unwrap();
        assert_eq!(swapped, [Port(1), Port(0), Next, Next]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, why) in [
            (r#"{"to":"south"}"#, "no port `south`; there are west, east, north"),
            (r#"{"to":{"south":"west"}}"#, "no port `south`"),
            (r#"{"to":7}"#, "`to` is a port's name, or a table"),
            (r#"{"two":"west"}"#, "unknown field `two`, expected `to`"),
        ] {
            let error = verdicts(arguments).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
