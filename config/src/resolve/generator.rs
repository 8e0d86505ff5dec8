//! Generators: which keys go together. What a generator can make is the port's to say.

use std::net::{IpAddr, Ipv6Addr};

use headgate_generator::GeneratorSpec;
use headgate_port::SpecError;
use headgate_shm::Geometry;

use super::super::codes::Code;
use super::super::document::GeneratorKeys;
use super::super::limits::BUFFERS_MIN;
use super::super::model::{Backend, Class, Generator, Load, Memory, RateStep};
use super::super::report::Span;
use super::super::values::{IpVersion, Rate, SizeMix};
use super::Resolver;

/// Addresses of RFC 5180 (2001:2::/48), set apart for benchmarks.
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1);
const DESTINATION_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1);

/// Frame size when the file names none: the shortest of Ethernet, as in the papers.
const SIZE_DEFAULT: u32 = headgate_generator::FRAME_BYTES_MIN;

impl Resolver<'_> {
    pub(super) fn generator(&mut self, keys: &GeneratorKeys, memory: Option<&Memory>) -> Option<Backend> {
        let load = self.load(keys);
        let sizes = self.sizes(keys);
        let addresses = self.addresses(keys);
        if [keys.vlan.is_broken(), keys.count.is_broken()].contains(&true) {
            return None;
        }
        let (source, destination) = addresses?;
        let generator = Generator {
            load: load?,
            steps: steps(keys)?,
            order: *keys.order.value()?,
            sizes: sizes?,
            protocol: *keys.protocol.value()?,
            source,
            destination,
            source_port: keys.source_port.value()?.0 as u16,
            destination_port: keys.destination_port.value()?.0 as u16,
            source_mac: *keys.source_mac.value()?,
            destination_mac: *keys.destination_mac.value()?,
            vlan: keys.vlan.value().map(|vlan| vlan.0 as u16),
            seed: keys.seed.value()?.0,
            count: keys.count.value().map(|count| count.0),
            timestamps: *keys.timestamps.value()?,
        };
        let buffers = BUFFERS_MIN as u32;
        if let Some(Ok(geometry)) = memory.map(|memory| Geometry::new(buffers, memory.buffer_bytes)) {
            for mistake in generator.spec().errors(geometry.frame_bytes_max()) {
                self.report_mistake(keys, mistake);
            }
        }
        Some(Backend::Generator(Box::new(generator)))
    }

    /// A mistake that the port found, at the key it names.
    fn report_mistake(&mut self, keys: &GeneratorKeys, mistake: SpecError) {
        let key = match mistake.field {
            "rate" => &keys.rate.key,
            "rates" => &keys.rates.key,
            "flows" if keys.flows.key.is_none() => &keys.rates.key,
            "flows" => &keys.flows.key,
            "steps" => &keys.steps.key,
            "size" if keys.size.key.is_none() => &keys.sizes.key,
            "size" => &keys.size.key,
            "sizes" => &keys.sizes.key,
            "source" => &keys.source.key,
            "source_port" => &keys.source_port.key,
            "vlan" => &keys.vlan.key,
            _ => &None,
        };
        let span = key.as_ref().unwrap_or(&keys.span);
        let message = format!("`{}`: {}", mistake.field, mistake.why);
        self.report.add(Code::OutOfRange, span, message).help(mistake.mend);
    }

    fn load(&mut self, keys: &GeneratorKeys) -> Option<Load> {
        let Some(rates) = &keys.rates.key else {
            let rate = if keys.rate.key.is_some() { *keys.rate.value()? } else { Rate::Max };
            let flows = if keys.flows.key.is_some() { keys.flows.value()?.0 } else { 1 };
            return Some(Load::Even { flows: flows as u32, rate });
        };
        for (other, name) in [(&keys.rate.key, "rate"), (&keys.flows.key, "flows")] {
            if let Some(other) = other {
                let message = format!("`rates` and `{name}` exclude each other");
                let help = "leave one out; each entry of `rates` is a flow, or says how many";
                self.conflict((other, name), rates, &message, help);
            }
        }
        let list = keys.rates.value()?;
        let mut classes = Vec::with_capacity(list.items.len());
        for at in &list.items {
            match at.value.rate {
                Rate::PacketsPerSecond(packets_per_second) => {
                    classes.push(Class { flows: at.value.flows, packets_per_second });
                }
                Rate::Max => {
                    self.report
                        .add(Code::OutOfRange, &at.span, "one flow among others has no maximum of its own")
                        .help("write a number, or `rate = \"max\"` for all flows together");
                }
            }
        }
        (list.complete && classes.len() == list.items.len()).then_some(Load::Classes(classes))
    }

    fn sizes(&mut self, keys: &GeneratorKeys) -> Option<SizeMix> {
        if let (Some(size), Some(sizes)) = (&keys.size.key, &keys.sizes.key) {
            self.conflict((size, "size"), sizes, "`size` and `sizes` exclude each other", "leave one out");
            return None;
        }
        if keys.sizes.key.is_some() {
            return keys.sizes.value().cloned();
        }
        let size = if keys.size.key.is_some() { keys.size.value()?.0 as u32 } else { SIZE_DEFAULT };
        Some(SizeMix::Weighted(vec![(size, 1)]))
    }

    /// Source and destination, of one IP version.
    fn addresses(&mut self, keys: &GeneratorKeys) -> Option<(IpAddr, IpAddr)> {
        if [keys.ip.is_broken(), keys.source.is_broken(), keys.destination.is_broken()].contains(&true) {
            return None;
        }
        let version = |is_v6| if is_v6 { IpVersion::V6 } else { IpVersion::V4 };
        let by_key = keys.ip.found.iter().map(|at| (at.value, at.span.clone()));
        let addresses =
            [&keys.source, &keys.destination].into_iter().filter_map(|field| field.found.as_ref());
        let by_address = addresses.map(|at| (version(at.value.0.is_ipv6()), at.span.clone()));
        let given: Vec<(IpVersion, Span)> = by_key.chain(by_address).collect();
        if let [(first, first_span), rest @ ..] = given.as_slice()
            && let Some((_, span)) = rest.iter().find(|(version, _)| version != first)
        {
            let help = "use addresses of one IP version, the one that `ip` says";
            self.conflict((first_span, "first"), span, "IPv4 and IPv6 in one generator", help);
            return None;
        }
        let v4 = GeneratorSpec::default();
        let (source, destination) = match given.first() {
            Some((IpVersion::V6, _)) => (SOURCE_V6.into(), DESTINATION_V6.into()),
            _ => (v4.source, v4.destination),
        };
        Some((
            keys.source.value().map_or(source, |address| address.0),
            keys.destination.value().map_or(destination, |address| address.0),
        ))
    }
}

fn steps(keys: &GeneratorKeys) -> Option<Vec<RateStep>> {
    if keys.steps.is_broken() || keys.steps.value().is_some_and(|steps| !steps.complete) {
        return None;
    }
    let tables = super::items(&keys.steps).iter();
    let step = |table: &super::super::document::StepTable| {
        Some(RateStep { at_ns: table.at.value()?.0, rate: *table.rate.value()? })
    };
    tables.map(|at| step(&at.value)).collect()
}
