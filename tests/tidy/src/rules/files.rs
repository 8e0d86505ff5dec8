//! Files too long to read in one sitting, tests and C files included.

use crate::offence::Offence;
use crate::workspace::Workspace;

/// Returns the files with more lines than that.
pub fn longer_than(workspace: &Workspace, limit: usize) -> Vec<Offence> {
    let rust = workspace.files.values().map(|file| (&file.path, &file.text));
    let counted = rust.chain(&workspace.c_files).map(|(path, text)| (path, text.lines().count()));
    let long = counted.filter(|(_, lines)| *lines > limit);
    long.map(|(path, lines)| Offence::new(path, 1, lines, format!("{lines} lines"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::planted;

    #[test]
    fn one_line_too_many_is_found_in_tests_and_in_c_too() {
        let long = "//\n".repeat(11);
        let fits = "//\n".repeat(10);
        let manifest = ("a/Cargo.toml", "[package]\nname = 'a'");
        let c = [("a/c/b.c", &long), ("a/c/b.h", &long), ("a/c/d.c", &fits)];
        let c = c.map(|(path, text)| (path, text.as_str()));
        let workspace =
            planted(&[&[manifest, ("a/src/lib.rs", &fits), ("a/tests/b.rs", &long)][..], &c].concat());
        let found = longer_than(&workspace, 10);
        let of = |path| Offence::new(path, 1, 11, "11 lines".to_owned());
        assert_eq!(found, [of("a/tests/b.rs"), of("a/c/b.c"), of("a/c/b.h")]);
    }
}
