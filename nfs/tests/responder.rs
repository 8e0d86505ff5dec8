//! The example that makes packets, over frames of a test.

#[path = "../examples/responder.rs"]
#[allow(dead_code, reason = "its `main` belongs to the example")]
mod responder;

use headgate_nf::testing::{Harness, Setup};
use headgate_nf::wire::checksum::Sum;
use headgate_nf::{Verdict, Way};
use responder::Responder;

const ARGUMENTS: &str = r#"{"address":"192.0.2.7","mac":"02:00:00:00:00:07"}"#;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

fn arp(last: u8) -> Vec<u8> {
    let ethernet = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
    let request =
        [8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, last];
    [ethernet, request.to_vec()].concat()
}

fn echo(last: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip =
        [0x45, 0, 0, 28 + payload.len() as u8, 0, 1, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1, 192, 0, 2, last];
    let sum = Sum::new().bytes(&ip).finish();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut message = [&[8, 0, 0, 0, 0, 9, 0, 1], payload].concat();
    let sum = Sum::new().bytes(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    [&MAC, &[2, 0, 0, 0, 0, 1][..], &[8, 0], &ip, &message].concat()
}

#[test]
fn it_answers_for_its_address_and_lets_everything_else_on() {
    let mut harness = Harness::new(Setup::with(ARGUMENTS), Responder::new).unwrap();
    // Sums of all kinds, carries among them.
    let payloads: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte; 33]).collect();
    for chunk in payloads.chunks(8) {
        let asked: Vec<_> = chunk.iter().map(|payload| echo(7, payload)).collect();
        let outcomes = harness.run(&asked);
        assert!(outcomes.iter().all(|(verdict, _)| *verdict == Verdict::Drop));
        for (made, asked) in harness.made().iter().zip(&asked) {
            assert_eq!((made.way.map(|way| matches!(way, Way::Port(_))), made.frame[34]), (Some(true), 0));
            assert_eq!((&made.frame[..6], &made.frame[6..12]), (&asked[6..12], &MAC[..]));
            assert_eq!((&made.frame[26..30], &made.frame[30..34]), (&asked[30..34], &asked[26..30]));
            assert_eq!((&made.frame[38..], made.frame.len()), (&asked[38..], asked.len()));
            let right = |bytes| Sum::new().bytes(bytes).finish() == 0;
            assert!(right(&made.frame[14..34]) && right(&made.frame[34..]));
        }
    }
    let mut fragment = echo(7, b"12345678");
    fragment[21] = 1;
    let others = [arp(8), echo(8, b""), fragment, vec![0; 14]];
    assert!(harness.run(&others).iter().all(|(verdict, _)| *verdict == Verdict::Next));
    assert_eq!(harness.made(), []);
    assert_eq!(harness.run(&[arp(7)])[0].0, Verdict::Drop);
    let answer = &harness.made()[0].frame;
    assert_eq!((answer[21], &answer[22..32]), (2, &[2, 0, 0, 0, 0, 7, 192, 0, 2, 7][..]));
    assert_eq!(["arp", "echo", "missed"].map(|name| harness.counter(name)), [1, 256, 0]);
}
