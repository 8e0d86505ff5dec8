//! Pages of documentation, run as they are printed.
//!
//! A fenced block in `sh` is a part of one script. A block whose first line is a comment with a file's name
//! (`# first.toml`, `// short_only.c`) is that file. The comment `<!-- says: a; b -->` behind a script's
//! block names words that it must have printed. Everything runs in network, mounts and processes of its own,
//! so that nothing stays, whatever happens.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::programs;

/// Words that stand in a page for the folder of Headgate's source.
pub const SOURCE: &str = "/path/to/headgate";

/// A fenced block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of the page that it begins in, from 1 on.
    pub line: usize,
    /// Language behind its fence.
    pub language: String,
    /// Its text.
    pub text: String,
    /// Words that it must have printed.
    pub says: Vec<String>,
}

impl Block {
    /// Returns the name of the file that it is, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        let first = self.text.lines().next()?;
        let comment = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?;
        let name = comment.split(':').next()?.trim();
        let is_name = name.contains('.') && !name.contains(' ');
        (self.language != "sh" && is_name).then_some(name)
    }
}

/// Returns the blocks of a page.
///
/// # Panics
/// Panics if a block has no end.
#[must_use]
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let (language, text, says) = (language.trim().to_owned(), String::new(), Vec::new());
                open = Some(Block { line: at + 1, language, text, says });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, None) => {
                let words = line.strip_prefix("<!-- says: ").and_then(|rest| rest.strip_suffix(" -->"));
                if let (Some(words), Some(block)) = (words, blocks.last_mut()) {
                    block.says = words.split("; ").map(str::to_owned).collect();
                }
            }
        }
    }
    assert!(open.is_none(), "a block without an end: {open:?}");
    blocks
}

/// Runs the blocks of a page in a folder, its files first. Returns what was printed.
///
/// # Panics
/// Panics if a command fails, or a block has not said what it must.
pub fn walk(page: &str, blocks: &[Block], folder: &Path, environment: &[(&str, String)]) -> String {
    let mark = |line: usize| format!("@@ line {line} of {page}");
    let mut script = String::new();
    for block in blocks {
        if let Some(file) = block.file() {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("it lies in the folder")).expect("the folder is ours");
            let text = block.text.replace(SOURCE, &programs::top().display().to_string());
            fs::write(path, text).expect("the folder is ours");
        } else if block.language == "sh" {
            script += &format!("echo '{}'\n{}", mark(block.line), block.text);
        }
    }
    let (is_fine, said) = inside(folder, &script, environment);
    assert!(is_fine, "{said}");
    for block in blocks.iter().filter(|block| block.language == "sh") {
        let its = said.split(&mark(block.line)).nth(1).unwrap_or_default();
        let its = its.split("@@ line ").next().unwrap_or_default();
        for words in &block.says {
            assert!(its.contains(words), "{page}, line {}: no {words:?} in\n{its}", block.line);
        }
    }
    said
}

/// Runs a script with bash in namespaces of its own. Returns whether all of it succeeded, and what it
/// printed.
///
/// # Panics
/// Panics if namespaces cannot be made.
pub fn inside(folder: &Path, script: &str, environment: &[(&str, String)]) -> (bool, String) {
    fs::write(folder.join("script"), script).expect("the folder is ours");
    let path = format!("{}:{}", programs::folder().display(), std::env::var("PATH").unwrap_or_default());
    let alone = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let ran = Command::new("unshare")
        .args(alone)
        .args([
            "sh",
            "-c",
            "mount -t tmpfs tmpfs /run && ip link set lo up && exec bash -euo pipefail script 2>&1",
        ])
        .current_dir(folder)
        .env("PATH", path)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs");
    (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_files_and_words_are_told_apart() {
        let page = "text\n```toml\n# a/b.toml: mine\nx = 1\n```\n```sh\n# b.toml\necho hi\n```\n<!-- says: hi; ho -->\n";
        let found = blocks(page);
        assert_eq!(found.iter().map(Block::file).collect::<Vec<_>>(), [Some("a/b.toml"), None]);
        assert_eq!((found[1].line, &*found[1].text), (6, "# b.toml\necho hi\n"));
        assert_eq!(found[1].says, ["hi", "ho"]);
    }
}
