//! Quantities of a plan in words.

use super::super::model::ChainIo;

/// Describes how a chain with so many hops works on interfaces.
pub(super) fn io_text(io: &ChainIo, hops: usize) -> String {
    let packets = if io.batch == 1 { "1 packet".to_owned() } else { format!("up to {} packets", io.batch) };
    let switch = io.switch_core.map_or(String::new(), |core| format!(" on core {core}"));
    let between = if hops == 0 { String::new() } else { format!(", {} wiring{switch}", io.wiring.word()) };
    format!("on interfaces, both ways: {} driver, {packets} a call{between}", io.driver.word())
}

/// `35.0 MiB`, `64.0 KiB`.
pub(super) fn bytes_text(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let bytes = bytes as f64;
    match bytes {
        _ if bytes < KIB * KIB => format!("{:.1} KiB", bytes / KIB),
        _ if bytes < KIB * KIB * KIB => format!("{:.1} MiB", bytes / (KIB * KIB)),
        _ => format!("{:.1} GiB", bytes / (KIB * KIB * KIB)),
    }
}
