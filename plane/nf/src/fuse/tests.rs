use crate::testing::{Harness, Setup};
use crate::{Build, Burst, Context, Counter, Member, NetworkFunction, NfError, Verdict};

/// Drops frames whose first byte is its own, counts what it sees, answers `say`.
struct Picky {
    byte: u8,
    seen: Counter,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    byte: u8,
}

impl NetworkFunction for Picky {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        self.seen.add(burst.len() as u64);
        for mut packet in burst.packets() {
            if packet.data()[0] == self.byte {
                packet.discard();
            }
        }
    }

    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        if body != "say" {
            return Err("only `say`".into());
        }
        Ok(context.tell(self.byte.to_string())?)
    }
}

fn picky(label: &str) -> Member {
    let build: Build = Box::new(|context| {
        let Arguments { byte } = context.arguments()?;
        Ok(Box::new(Picky { byte, seen: context.counter("seen")? }))
    });
    Member { label: label.to_owned(), build }
}

fn trio() -> Harness {
    let setup = Setup::with(r#"[{"byte":1},{"byte":2},{"byte":3}]"#);
    Harness::fused(setup, vec![picky("a"), picky("b"), picky("a")]).unwrap()
}

#[test]
fn a_dropped_packet_is_not_seen_by_those_behind() {
    let mut trio = trio();
    let frames: Vec<_> = [1, 2, 3, 4, 1].map(|byte| vec![byte; 60]).into();
    let verdicts: Vec<_> = trio.run(&frames).into_iter().map(|(verdict, _)| verdict).collect();
    assert_eq!(verdicts, [Verdict::Drop, Verdict::Drop, Verdict::Drop, Verdict::Next, Verdict::Drop]);
    let counters = [("a.seen".to_owned(), 5), ("b.seen".to_owned(), 3), ("a.2.seen".to_owned(), 2)];
    assert_eq!(trio.counters(), counters);
}

#[test]
fn messages_find_their_nf_by_its_label() {
    let mut trio = trio();
    trio.message("a.2 say").unwrap();
    trio.message("b say").unwrap();
    assert_eq!(trio.told(), ["a.2 3", "b 2"]);
    assert_eq!(trio.message("b shout").unwrap_err().to_string(), "b: only `say`");
    let error = trio.message("say").unwrap_err().to_string();
    assert!(error.ends_with("a, b, a.2"), "{error}");
}

#[test]
fn wrong_arguments_name_the_nf_they_are_for() {
    for (arguments, error) in [
        (
            r#"[{"byte":1},{"bite":2}]"#,
            "b: bite: unknown field `bite`, expected `byte`; missing field `byte`",
        ),
        (r#"[{"byte":1}]"#, "2 network functions with arguments for 1"),
        (r#"[{"byte":1},null]"#, "b: missing field `byte`"),
    ] {
        let refused = Harness::fused(Setup::with(arguments), vec![picky("a"), picky("b")]).err().unwrap();
        assert_eq!(refused.to_string(), error);
    }
    assert!(Harness::fused(Setup::with("{}"), vec![picky("a")]).is_err());
}
