//! Files too long to read in one sitting, tests included.

use crate::offence::Offence;
use crate::workspace::Workspace;

/// Returns the files with more lines than that.
pub fn longer_than(workspace: &Workspace, limit: usize) -> Vec<Offence> {
    let counted = workspace.files.values().map(|file| (file, file.text.lines().count()));
    let long = counted.filter(|(_, lines)| *lines > limit);
    long.map(|(file, lines)| Offence::new(&file.path, 1, lines, format!("{lines} lines"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::planted;

    #[test]
    fn one_line_too_many_is_found_in_tests_too() {
        let long = "//\n".repeat(11);
        let fits = "//\n".repeat(10);
        let manifest = ("a/Cargo.toml", "[package]\nname = 'a'");
        let workspace = planted(&[manifest, ("a/src/lib.rs", &fits), ("a/tests/b.rs", &long)]);
        let found = longer_than(&workspace, 10);
        assert_eq!(found, [Offence::new("a/tests/b.rs", 1, 11, "11 lines".to_owned())]);
    }
}
