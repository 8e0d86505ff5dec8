//! The header, the library and the template, used as C programmers use them: with a C compiler.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{Linking, WARNINGS, compiled, installed, must, root, run};
use headgate_nf::testing::pcap::Capture;
use headgate_nf::testing::{Loop, Manager, Welcome};
use headgate_nf::{SOCKET_VARIABLE, Verdict};

#[test]
fn the_header_is_clean_c_and_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let compilers = [
        ("cc", "c11"),
        ("cc", "c17"),
        ("c++", "c++11"),
        ("c++", "c++20"),
        ("clang", "c11"),
        ("clang++", "c++17"),
    ];
    for (compiler, standard) in compilers {
        let source = folder.path().join(if standard.starts_with("c++") { "header.cc" } else { "header.c" });
        // Each first that can be: it includes what it needs.
        let headers = ["headgate_files.h", "headgate_nf.h", "headgate_wire.h"];
        fs::write(&source, headers.map(|header| format!("#include \"{header}\"\n")).concat()).unwrap();
        let mut command = Command::new(compiler);
        command.arg(format!("-std={standard}")).args(WARNINGS).arg("-I").arg(root()).arg("-c").arg(&source);
        command.arg("-o").arg(folder.path().join("header.o"));
        if command.output().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            eprintln!("skipped: no {compiler} here");
            continue;
        }
        must(&mut command);
    }
}

#[test]
fn every_function_does_what_the_header_says() {
    let installation = installed();
    let (input, output) = (installation.path().join("in.pcap"), installation.path().join("out.pcapng"));
    let frames: Vec<_> = (0..40u8).map(|number| vec![number % 4; 60]).collect();
    Capture::of(&frames).write(&input).unwrap();
    for linking in [Linking::Shared, Linking::Static] {
        let program = compiled(installation.path(), &root().join("tests/c/unit.c"), linking);
        let (code, _, err) = run(Command::new(&program).arg(&input).arg(&output));
        assert_eq!(code, 0, "{err}");
        for why in [
            "limt: no such argument; it takes limit, mode",
            "limit: expected a whole number, found \"7\"",
            "told to refuse",
            "`start` returned -7",
            "/no/such.pcap: No such file",
            "compiled for version 99 of headgate_nf.h",
            "the network function has no `process`",
            "the network function is NULL",
            "there is no option",
        ] {
            assert!(err.contains(why), "`{why}` is not in\n{err}");
        }
        let written = Capture::read(&output).unwrap();
        let reshaped = written.arrivals.iter().filter(|arrival| arrival.frame.len() == 64).count();
        assert_eq!((written.arrivals.len(), reshaped), (30, 10));
    }
}

#[test]
fn a_packet_laid_outside_its_buffer_ends_the_program_and_not_with_a_crash() {
    let installation = installed();
    let input = installation.path().join("in.pcap");
    Capture::of(&[vec![4; 60]]).write(&input).unwrap();
    let program = compiled(installation.path(), &root().join("tests/c/unit.c"), Linking::Shared);
    let (code, _, err) = run(Command::new(&program).arg(&input).arg(input.with_extension("out")));
    assert_ne!(code, -1, "it was killed by a signal");
    assert!(err.contains("put a packet of 131071 bytes at offset 128 of its buffer"), "{err}");
}

/// A frame from one station to another.
fn frame(from: u8, to: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    frame.resize(60, from ^ to);
    frame
}

#[test]
fn the_template_bridges_a_capture() {
    let source = root().join("examples/bridge.c");
    assert!(fs::read_to_string(&source).unwrap().lines().count() < 100);
    let installation = installed();
    let bridge = compiled(installation.path(), &source, Linking::Shared);
    let (input, output) = (installation.path().join("in.pcap"), installation.path().join("out.pcapng"));
    // All come by the first port: what 2 sends to 1 stays, for 1 was heard there.
    Capture::of(&[frame(1, 2), frame(2, 1), frame(2, 3), frame(1, 2)]).write(&input).unwrap();
    must(Command::new(&bridge).arg("--pcap").args([&input, &output]));
    let written = Capture::read(&output).unwrap();
    let sent: Vec<_> = written.arrivals.iter().map(|arrival| arrival.frame.clone()).collect();
    assert_eq!(sent, [frame(1, 2), frame(2, 3)]);
    let (code, _, err) =
        run(Command::new(&bridge).args(["--args", r#"{"one":"east"}"#, "--pcap"]).args([&input, &output]));
    assert_eq!((code, err.as_str()), (4, "other: a bridge needs two different ports\n"));
}

#[test]
fn the_template_bridges_a_manager_s_packets() {
    let installation = installed();
    let bridge = compiled(installation.path(), &root().join("examples/bridge.c"), Linking::Shared);
    let ports = vec!["a".to_owned(), "b".to_owned()];
    let arguments = r#"{"one":"a","other":"b"}"#.to_owned();
    let welcome =
        Welcome { name: "bridge".into(), waits: Loop::Notified, ports, arguments, ..Welcome::default() };
    let (mut manager, socket) = Manager::new(welcome);
    let child = Command::new(&bridge).env(SOCKET_VARIABLE, "0").stdin(Stdio::from(socket)).spawn().unwrap();
    manager.admit().unwrap();
    let mut pass = |frame: Vec<u8>, ingress| {
        assert_eq!(manager.send(&[&frame], ingress), 1);
        loop {
            let back = manager.collect();
            if let [(verdict, same)] = &back[..] {
                assert_eq!(*same, frame);
                return *verdict;
            }
            std::thread::yield_now();
        }
    };
    assert_eq!(pass(frame(1, 2), 0), Verdict::Port(1));
    assert_eq!(pass(frame(2, 1), 1), Verdict::Port(0));
    assert_eq!(pass(frame(3, 1), 0), Verdict::Drop);
    assert_eq!(pass(frame(3, 2), 0), Verdict::Port(1));
    manager.tell("remember");
    assert_eq!(manager.listen(), r#"{"error":"the only message is `forget`"}"#);
    manager.tell("forget");
    assert_eq!(manager.listen(), "forgotten");
    assert_eq!(manager.ask("forget"), Ok("forgotten".to_owned()));
    assert_eq!(manager.ask("remember"), Err("the only message is `forget`".to_owned()));
    let counters = ["forwarded", "filtered", "learnt"].map(|name| manager.counter(name));
    assert_eq!(counters, [Some(3), Some(1), Some(3)]);
    assert_eq!(manager.stop(), "");
    assert!(child.wait_with_output().unwrap().status.success());
}

/// An argument that a program in C does not accept is said as such, and what may pass is not.
#[test]
fn what_a_program_in_c_refuses_the_manager_is_told() {
    let installation = installed();
    let [bridge, guestbook] = ["bridge", "guestbook"].map(|name| {
        let source = root().join("examples").join(name).with_extension("c");
        compiled(installation.path(), &source, Linking::Shared)
    });
    for (program, arguments, refused) in [
        (&bridge, r#"{"one":"a","other":7}"#, Some("other: expected a text, found 7")),
        (&bridge, r#"{"one":"a","other":"b","more":1}"#, Some("more: no such argument; it takes one, other")),
        (&bridge, r#"{"one":"a","other":"a"}"#, Some("other: a bridge needs two different ports")),
        (&bridge, r#"{"one":"a","other":"c"}"#, Some("there is no port `c`; there are a, b")),
        (&guestbook, r#"{"book":"/no/such/folder/book"}"#, None),
    ] {
        let ports = vec!["a".to_owned(), "b".to_owned()];
        let welcome = Welcome { ports, arguments: arguments.to_owned(), ..Welcome::default() };
        let (mut manager, socket) = Manager::new(welcome);
        let mut command = Command::new(program);
        command.env(SOCKET_VARIABLE, "0").stdin(Stdio::from(socket)).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let reason = manager.admit().unwrap_err();
        let said: Vec<String> = manager.refused().iter().map(ToString::to_string).collect();
        assert_eq!(said, refused.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{reason}");
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(4), "{reason}");
    }
}

#[test]
fn without_a_common_version_a_program_in_c_says_why() {
    let installation = installed();
    let bridge = compiled(installation.path(), &root().join("examples/bridge.c"), Linking::Shared);
    let welcome = Welcome { abi: 99, name: "bridge".into(), ..Welcome::default() };
    let (mut manager, socket) = Manager::new(welcome);
    let mut command = Command::new(&bridge);
    command.env(SOCKET_VARIABLE, "0").stdin(Stdio::from(socket)).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let goodbye = manager.admit().unwrap_err();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    for told in [goodbye, said] {
        assert!(
            told.contains("chose version 99 of the interface, and this library speaks version"),
            "{told}"
        );
    }
    assert_eq!(output.status.code(), Some(3));
}

/// An ARP request, an echo request, and the same for somebody else.
fn questions() -> Vec<Vec<u8>> {
    let hex = |text: &str| -> Vec<u8> {
        let digits: Vec<char> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap()).collect()
    };
    let arp = |last| {
        hex(&format!(
            "ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 c0000201 000000000000 c00002{last}"
        ))
    };
    let echo = |last| {
        let mut frame = hex(&format!(
            "020000000007 020000000001 0800 45000020 00010000 4001 0000 c0000201 c00002{last} 0800 0000 0001 0002 61626364"
        ));
        for (from, to, at) in [(14, 34, 24), (34, 46, 36)] {
            let sum = !sum(&frame[from..to]);
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        frame
    };
    let mut questions = vec![arp("07"), echo("07"), arp("08"), echo("08")];
    // A later fragment, and an answer: neither is a question.
    let (mut fragment, mut answer) = (questions[1].clone(), questions[1].clone());
    fragment[21] = 1;
    answer[34] = 0;
    questions.extend([fragment, answer]);
    questions
}

#[test]
fn the_example_that_makes_packets_answers_for_its_address() {
    let source = root().join("examples/responder.c");
    assert!(fs::read_to_string(&source).unwrap().lines().count() < 100);
    let installation = installed();
    let responder = compiled(installation.path(), &source, Linking::Shared);
    let (input, output) = (installation.path().join("in.pcap"), installation.path().join("out.pcapng"));
    let asked = questions();
    Capture::of(&asked).write(&input).unwrap();
    let arguments = r#"{"address":"192.0.2.7","mac":"02:00:00:00:00:07"}"#;
    must(Command::new(&responder).args(["--args", arguments, "--pcap"]).args([&input, &output]));
    let written = Capture::read(&output).unwrap().arrivals;
    let sent: Vec<_> = written.iter().map(|arrival| arrival.frame.clone()).collect();
    // The ways out in the order of their first packets: the answers by the port of the questions, then the
    // rest.
    let ways: Vec<_> = written.iter().map(|arrival| arrival.ingress).collect();
    assert_eq!(ways, [0, 0, 1, 1, 1, 1]);
    assert_eq!(sent[2..], asked[2..]);
    let arp = &sent[0];
    assert_eq!(
        (&arp[..6], &arp[6..12], &arp[20..22]),
        (&asked[0][6..12], &[2, 0, 0, 0, 0, 7][..], &[0, 2][..])
    );
    assert_eq!(arp[22..42], [&[2, 0, 0, 0, 0, 7, 192, 0, 2, 7][..], &asked[0][22..32]].concat());
    let echo = &sent[1];
    assert_eq!((&echo[26..30], &echo[30..34], echo[34]), (&[192, 0, 2, 7][..], &[192, 0, 2, 1][..], 0));
    assert_eq!((sum(&echo[14..34]), sum(&echo[34..])), (0xffff, 0xffff), "sums as RFC 1071 has them");
    assert_eq!(echo[38..], asked[1][38..]);
    let (code, _, err) =
        run(Command::new(&responder).args(["--args", r#"{"mac":"x"}"#, "--pcap"]).args([&input, &output]));
    assert_eq!((code, err.as_str()), (4, "address: an IPv4 address, as 192.0.2.7\n"));
}

/// The one's complement sum of big-endian words, checksum field included: all ones when it is right.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The place of a station's page in the book of the example.
fn page(station: u8) -> usize {
    let address = u64::from_be_bytes([0, 0, 2, 0, 0, 0, 0, station]);
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
}

#[test]
fn the_example_with_files_holds_packets_and_writes_what_came() {
    let source = root().join("examples/guestbook.c");
    assert!(fs::read_to_string(&source).unwrap().lines().count() < 100);
    let installation = installed();
    let program = compiled(installation.path(), &source, Linking::Shared);
    let path = |name: &str| installation.path().join(name);
    let mut book = vec![0u8; 65536];
    (1..=3).for_each(|station| book[page(station)] = 1);
    fs::write(path("book"), &book).unwrap();
    let frames: Vec<_> = (0..200u8).map(|number| frame(1 + number % 5, 9)).collect();
    Capture::of(&frames).write(&path("in.pcap")).unwrap();
    let arguments =
        format!(r#"{{"book":"{}","visits":"{}"}}"#, path("book").display(), path("visits").display());
    must(
        Command::new(&program)
            .args(["--args", &arguments, "--pcap"])
            .args([path("in.pcap"), path("out.pcapng")]),
    );
    let written = Capture::read(&path("out.pcapng")).unwrap();
    let admitted: Vec<_> = frames.iter().filter(|frame| frame[11] <= 3).cloned().collect();
    assert_eq!(written.arrivals.iter().map(|arrival| arrival.frame.clone()).collect::<Vec<_>>(), admitted);
    // As they were let in: in the order of each station, and not of all.
    let mut visits: Vec<_> = fs::read(path("visits")).unwrap().chunks(6).map(<[u8]>::to_vec).collect();
    let mut expected: Vec<_> = admitted.iter().map(|frame| frame[6..12].to_vec()).collect();
    visits.sort();
    expected.sort();
    assert_eq!(visits, expected);
    // A book that ends too early: nobody is known, and nothing is stuck.
    fs::write(path("book"), []).unwrap();
    must(
        Command::new(&program)
            .args(["--args", &arguments, "--pcap"])
            .args([path("in.pcap"), path("none.pcapng")]),
    );
    assert!(Capture::read(&path("none.pcapng")).unwrap().arrivals.is_empty());
    let (code, _, err) = run(Command::new(&program)
        .args(["--args", r#"{"book":"/no/such/book"}"#, "--pcap"])
        .args([path("in.pcap"), path("out.pcapng")]));
    assert_eq!(code, 4);
    assert!(err.contains("cannot open /no/such/book: No such file"), "{err}");
}
