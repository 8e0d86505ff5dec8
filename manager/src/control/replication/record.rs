//! Files of a node that outlive its manager: the view of its group, and the number of its life.
//!
//! Both are written beside and renamed, and on the disk before what they say is sent or applied.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use headgate_decide::replicate::Assignment;
use headgate_host::clock;
use serde::{Deserialize, Serialize};

use crate::config::model::Group;

/// Version of the layout of a view's file.
const FORMAT: u32 = 1;
/// Most bytes of a file of ours.
const BYTES_MAX: u64 = 64 << 10;

/// Contents of a view's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    format: u32,
    group: String,
    /// Nodes of the group: gate, active, standby as the file has them. Numbers of nodes are places here.
    nodes: [String; 3],
    lanes: usize,
    assignment: Assignment,
}

/// The files of a node.
pub struct Records {
    folder: PathBuf,
    group: String,
    nodes: [String; 3],
    lanes: usize,
}

impl Records {
    /// Opens the folder of a node, which is made where it is not there.
    ///
    /// # Errors
    /// A sentence with the cure.
    pub fn open(folder: &Path, group: &Group, lanes: usize) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| {
            format!(
                "its folder {} cannot be made: {error}; name another by `state` of the [[node]]",
                folder.display()
            )
        })?;
        let nodes = [group.gate.clone(), group.active.clone(), group.standby.clone()];
        Ok(Self { folder: folder.to_owned(), group: group.name.clone(), nodes, lanes })
    }

    fn view_path(&self) -> PathBuf {
        self.folder.join(format!("{}.view.json", self.group))
    }

    /// Returns the assignment that was written last; `None` where none ever was.
    ///
    /// # Errors
    /// A sentence with the cure, where the file is not one of this group.
    pub fn read(&self) -> Result<Option<Assignment>, String> {
        let path = self.view_path();
        let Some(text) = read_small(&path)? else { return Ok(None) };
        let cure = "put the right one there; or, while all nodes of the group are stopped, remove it, which \
                    discards the state of its NFs";
        let wrong = |why: String| format!("its view {}: {why}; {cure}", path.display());
        let written: Written =
            serde_json::from_str(&text).map_err(|error| wrong(format!("not readable ({error})")))?;
        if written.format != FORMAT {
            return Err(wrong(format!("format {}, and {FORMAT} is known", written.format)));
        }
        if (&written.group, &written.nodes) != (&self.group, &self.nodes) {
            let [gate, active, standby] = &written.nodes;
            return Err(wrong(format!(
                "it is of group `{}` with nodes `{gate}`, `{active}` and `{standby}`",
                written.group
            )));
        }
        let lanes = written.assignment.log_begins_after.lanes().count();
        if lanes != self.lanes || written.lanes != self.lanes {
            return Err(wrong(format!(
                "it is of a group of {lanes} chains, and this one has {}",
                self.lanes
            )));
        }
        Ok(Some(written.assignment))
    }

    /// Writes an assignment, so that it outlives the machine.
    ///
    /// # Errors
    /// A sentence with the cure.
    pub fn write(&self, assignment: &Assignment) -> Result<(), String> {
        let written = Written {
            format: FORMAT,
            group: self.group.clone(),
            nodes: self.nodes.clone(),
            lanes: self.lanes,
            assignment: *assignment,
        };
        let path = self.view_path();
        let text = serde_json::to_string_pretty(&written).map_err(|error| error.to_string())?;
        replace(&path, &text).map_err(|error| {
            format!(
                "view {} cannot be written to {}: {error}; the view before stays in force until there is room",
                assignment.view.0,
                path.display()
            )
        })
    }

    /// Begins a life of the node. Returns its number, which is higher than that of any before: by a file, and
    /// by the clock where the file is gone.
    ///
    /// # Errors
    /// A sentence with the cure.
    pub fn begin_life(&self) -> Result<u64, String> {
        let path = self.folder.join("life");
        let before = match read_small(&path)? {
            None => 0,
            Some(text) => text
                .trim()
                .parse::<u64>()
                .map_err(|error| format!("{} holds no number ({error}); remove it", path.display()))?,
        };
        // A clock before 1970 counts as 1970.
        let now = clock::wall().as_micros() as u64;
        let life = now.max(before.saturating_add(1));
        replace(&path, &format!("{life}\n")).map_err(|error| {
            format!(
                "the number of its life cannot be written to {}: {error}; make room, or grant the right",
                path.display()
            )
        })?;
        Ok(life)
    }
}

fn read_small(path: &Path) -> Result<Option<String>, String> {
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    if size > BYTES_MAX {
        return Err(format!("{} has {size} bytes, and is none of ours; move it away", path.display()));
    }
    fs::read_to_string(path).map(Some).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Puts a file in the place of another, whole, and on the disk.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("next");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use headgate_decide::replicate::{Boot, Clocks, Incarnation, NodeId, View};

    use super::*;

    fn records(folder: &Path) -> Records {
        let nodes = ["gate", "left", "right"].map(str::to_owned);
        Records { folder: folder.to_owned(), group: "edge".to_owned(), nodes, lanes: 2 }
    }

    fn assignment(view: u32) -> Assignment {
        let one = |node| Incarnation { node: NodeId(node), boot: Boot(7) };
        let (view, log_begins_after) = (View(view), Clocks::new(2));
        Assignment {
            view,
            active: one(0),
            standby: Some(one(1)),
            joined: view,
            handed_over: true,
            begun: view,
            log_begins_after,
        }
    }

    #[test]
    fn a_view_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        assert_eq!(records.read(), Ok(None));
        for view in [1, 2] {
            records.write(&assignment(view)).unwrap();
            assert_eq!(records.read(), Ok(Some(assignment(view))));
        }
    }

    #[test]
    fn a_view_of_another_group_or_none_is_refused_with_the_cure() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        records.write(&assignment(3)).unwrap();
        let other = |change: &dyn Fn(&mut Records)| {
            let mut other = self::records(folder.path());
            change(&mut other);
            other.read().unwrap_err()
        };
        assert!(
            other(&|it| it.nodes[1] = "west".to_owned()).contains("`left` and `right`; put the right one")
        );
        assert!(other(&|it| it.lanes = 1).contains("a group of 2 chains, and this one has 1"));
        let text = fs::read_to_string(records.view_path()).unwrap();
        for forged in [
            "",
            "{}",
            &text[..40],
            &text.replace("\"format\": 1", "\"format\": 2"),
            &text.replace("\"lanes\": 2", "\"lanes\": 200"),
        ] {
            fs::write(records.view_path(), forged).unwrap();
            let why = records.read().unwrap_err();
            assert!(why.contains("edge.view.json") && why.contains("remove it"), "{why}");
        }
        fs::write(records.view_path(), vec![b' '; BYTES_MAX as usize + 1]).unwrap();
        assert!(records.read().unwrap_err().contains("none of ours"));
    }

    #[test]
    fn each_life_has_a_higher_number() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        let first = records.begin_life().unwrap();
        assert!(records.begin_life().unwrap() > first);
        // A clock that is set back changes nothing.
        fs::write(folder.path().join("life"), format!("{}", u64::MAX - 5)).unwrap();
        assert_eq!(records.begin_life(), Ok(u64::MAX - 4));
        fs::write(folder.path().join("life"), "many").unwrap();
        assert!(records.begin_life().unwrap_err().contains("remove it"));
    }
}
