//! The systemd unit in `dist/`: what it lets a manager and its NFs do, by systemd's own judgement.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use headgate_host::Pid;
use headgate_tests::programs::top;
use headgate_tests::{machine, programs};
use rustix::process::{Signal, kill_process};

/// Largest exposure, in tenths of systemd's scale, which ends at 10: "OK" to systemd, which begins at 2.0.
const EXPOSURE_MAX: u32 = 40;
const ANALYZE: &str = "systemd-analyze";

fn dist() -> PathBuf {
    top().join("dist")
}

fn analyze(arguments: &[&str], unit: &Path) -> (bool, String) {
    let Output { status, stdout, stderr } =
        Command::new(ANALYZE).args(arguments).arg(unit).output().expect("it is there");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn the_unit_exposes_little() {
    if !machine::has_program("the_unit_exposes_little", ANALYZE) {
        return;
    }
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let arguments = ["security", "--offline=true", "--no-pager", &threshold];
    let (is_little, said) = analyze(&arguments, &dist().join("headgate.service"));
    assert!(is_little, "{said}");
    // A unit without its settings is more exposed, so the judgement is one.
    let folder = tempfile::tempdir().expect("a folder can be made");
    let bare = folder.path().join("headgate.service");
    fs::write(&bare, "[Service]\nExecStart=/bin/true\n").expect("the folder is ours");
    let (is_little, said) = analyze(&arguments, &bare);
    assert!(!is_little, "{said}");
}

/// Whatever systemd does not know it ignores, with a message.
#[test]
fn systemd_knows_every_setting_of_the_unit_and_its_drop_ins() {
    if !machine::has_program("systemd_knows_every_setting_of_the_unit_and_its_drop_ins", ANALYZE) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder can be made");
    let unit = folder.path().join("headgate.service");
    let drop_ins = folder.path().join("headgate.service.d");
    fs::create_dir(&drop_ins).expect("the folder is ours");
    for name in ["headgate-containers.conf", "headgate-xdp.conf"] {
        fs::copy(dist().join(name), drop_ins.join(name)).expect("the drop-in is there");
    }
    let text = fs::read_to_string(dist().join("headgate.service")).expect("the unit is there");
    // Programs that need not be installed to be looked for.
    let text =
        text.replace("/usr/bin/headgate-manager ", "/bin/true ").replace("/usr/bin/headgate ", "/bin/true ");
    for (text, is_known) in [(text.clone(), true), (text.replace("ProtectHome", "ProtectHone"), false)] {
        fs::write(&unit, text).expect("the folder is ours");
        let (_, said) = analyze(&["--man=no", "verify"], &unit);
        assert_eq!(!said.contains("headgate.service"), is_known, "{said}");
    }
}

/// NFs of users of their own start with the rights that the unit leaves the manager: fewer than root's.
#[test]
fn nfs_start_with_the_rights_of_the_unit() {
    const TEST: &str = "nfs_start_with_the_rights_of_the_unit";
    if !machine::is_root() {
        return machine::skip(TEST, "rights are taken from root");
    }
    if !machine::has_program(TEST, "setpriv") {
        return;
    }
    let unit = fs::read_to_string(dist().join("headgate.service")).expect("the unit is there");
    let kept = unit
        .lines()
        .filter_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .flat_map(str::split_whitespace);
    let kept: Vec<String> =
        kept.map(|right| format!(",+{}", right.trim_start_matches("CAP_").to_lowercase())).collect();
    assert!(kept.len() > 5, "{unit}");
    let name = format!("service-{}", std::process::id());
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("headgate.toml");
    let (manager, nf) = (machine::manager_core(), machine::nf_core());
    let text = format!(
        "[manager]\nname = {name:?}\ncores = [{manager}]\n[memory]\nbuffers = 1024\nhugepages = \"never\"\n\
         [[port]]\nname = \"in\"\nkind = \"generator\"\nrate = \"1k\"\n[[port]]\nname = \"out\"\nkind = \"null\"\n\
         [[nf]]\nname = \"fw\"\nrun = \"forward\"\ncore = {nf}\nring = 256\n\
         [[chain]]\nname = \"path\"\nstages = [\"fw\"]\nout = \"out\"\n[[rule]]\nin = \"in\"\nchain = \"path\"\n"
    );
    fs::write(&file, text).expect("the folder is ours");
    let (_alone, _) = (machine::alone(), programs::nfs());
    let mut daemon = Command::new("setpriv")
        .arg(format!("--bounding-set=-all{}", kept.concat()))
        .arg("--no-new-privs")
        .arg(programs::manager())
        .arg(&file)
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the daemon starts");
    let said = BufReader::new(daemon.stderr.take().expect("it is piped")).lines();
    let told = format!("manager {name}:");
    let mut all = Vec::new();
    for line in said.map(|line| line.expect("it says text")) {
        all.push(line);
        if all.last().is_some_and(|line| line.contains(&told)) {
            let _ = kill_process(Pid::from_child(&daemon), Signal::TERM);
        }
    }
    assert!(daemon.wait().expect("it ends").success(), "{all:#?}");
    assert!(all.iter().any(|line| line.contains(&told) && !line.contains("not ready")), "{all:#?}");
}
