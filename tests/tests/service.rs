//! The systemd unit in `dist/`: what it lets a manager and its NFs do, by systemd's own judgement.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use headgate_tests::machine;
use headgate_tests::programs::top;

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
