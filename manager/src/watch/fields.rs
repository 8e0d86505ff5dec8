//! Fields of a frame, by the names that Wireshark gives them, and how they were rewritten.

use headgate_api::watch::Change;
use headgate_wire::headers::Headers;

/// Field of a frame and its value.
type Field = (&'static str, String);

/// Returns the fields of a frame of `length` bytes, of which the first are at hand.
pub fn of(frame: &[u8], length: u32) -> Vec<Field> {
    let headers = Headers::read(frame);
    let mut fields: Vec<Field> = Vec::new();
    if let Some((path, ttl)) = headers.service {
        fields.push(("nsh.spi", path.path.to_string()));
        fields.push(("nsh.si", path.index.to_string()));
        fields.push(("nsh.ttl", ttl.to_string()));
    }
    if let Some((to, from)) = headers.link {
        fields.push(("eth.dst", to.to_string()));
        fields.push(("eth.src", from.to_string()));
    }
    fields.extend(headers.tags.iter().flatten().map(|tag| ("vlan.id", tag.id.to_string())));
    if headers.link.is_some() {
        fields.push(("eth.type", format!("0x{:04x}", headers.ethertype)));
    }
    network(&headers, &mut fields);
    transport(&headers, &mut fields);
    let payload = frame.get(headers.payload_at..).unwrap_or_default();
    fields.push(("data", digest(payload)));
    fields.push(("frame.len", length.to_string()));
    fields
}

fn network(headers: &Headers, fields: &mut Vec<Field>) {
    let Some(ip) = headers.network else { return };
    fields.push(("ip.src", ip.source.to_string()));
    fields.push(("ip.dst", ip.destination.to_string()));
    fields.push(("ip.dsfield", format!("0x{:02x}", ip.class)));
    fields.push(("ip.ttl", ip.ttl.to_string()));
    fields.push(("ip.proto", ip.protocol.to_string()));
    fields.push(("ip.len", ip.length.to_string()));
    if ip.source.is_ipv4() {
        fields.push(("ip.checksum", format!("0x{:04x}", ip.checksum)));
    }
}

fn transport(headers: &Headers, fields: &mut Vec<Field>) {
    let Some(ports) = headers.transport else { return };
    let names = match ports.tcp {
        Some(_) => ["tcp.srcport", "tcp.dstport", "tcp.checksum"],
        None => ["udp.srcport", "udp.dstport", "udp.checksum"],
    };
    fields.push((names[0], ports.source.to_string()));
    fields.push((names[1], ports.destination.to_string()));
    if let Some((sequence, acknowledgment, flags, window)) = ports.tcp {
        fields.push(("tcp.seq_raw", sequence.to_string()));
        fields.push(("tcp.ack_raw", acknowledgment.to_string()));
        fields.push(("tcp.flags", format!("0x{flags:02x}")));
        fields.push(("tcp.window_size_value", window.to_string()));
    }
    fields.push((names[2], format!("0x{:04x}", ports.checksum)));
}

/// Returns a short name for bytes, so that others are seen to be others: FNV-1a of 32 bits.
fn digest(bytes: &[u8]) -> String {
    let hash =
        bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("{} bytes, digest {hash:08x}", bytes.len())
}

/// Returns the fields that differ, in the order of a frame.
pub fn changes(before: &[Field], after: &[Field]) -> Vec<Change> {
    let mut changes = Vec::new();
    let value = |fields: &[Field], name: &str, which: usize| {
        fields.iter().filter(|field| field.0 == name).nth(which).map(|field| field.1.clone())
    };
    let mut seen: Vec<&str> = Vec::new();
    for (name, _) in before.iter().chain(after) {
        let which = seen.iter().filter(|other| *other == name).count();
        let (before, after) = (value(before, name, which), value(after, name, which));
        // The second list names again what the first one had.
        if before.is_none() && after.is_none() {
            continue;
        }
        seen.push(name);
        if before != after {
            changes.push(Change { field: (*name).to_owned(), before, after });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &'static str, value: &str) -> Field {
        (name, value.to_owned())
    }

    #[test]
    fn what_was_rewritten_added_and_taken_away_is_told_once() {
        let before = [field("vlan.id", "5"), field("ip.src", "a"), field("ip.ttl", "64")];
        let after = [field("nsh.spi", "9"), field("ip.src", "b"), field("ip.ttl", "64")];
        let told: Vec<_> =
            changes(&before, &after).into_iter().map(|it| (it.field, it.before, it.after)).collect();
        let text = |text: &str| Some(text.to_owned());
        let expected = [
            ("vlan.id".to_owned(), text("5"), None),
            ("ip.src".to_owned(), text("a"), text("b")),
            ("nsh.spi".to_owned(), None, text("9")),
        ];
        assert_eq!(told, expected);
        let two = [field("vlan.id", "5"), field("vlan.id", "6")];
        let told = changes(&two, &[field("vlan.id", "5"), field("vlan.id", "7")]);
        assert_eq!((told.len(), told[0].after.as_deref()), (1, Some("7")));
        assert_eq!(changes(&before, &before), []);
    }

    #[test]
    fn a_changed_payload_shows() {
        let (mut frame, length) = (vec![0; 80], 80);
        let before = of(&frame, length);
        frame[79] = 1;
        let told = changes(&before, &of(&frame, length));
        assert_eq!((told.len(), told[0].field.as_str()), (1, "data"));
    }
}
