//! The command line, word by word. By hand, because this process starts in a millisecond and a parser with
//! help, colours and completions does not.

/// The command line is not one of ours: what is wrong with it.
pub struct Usage(pub String);

/// The words not yet used.
pub struct Words(Vec<String>);

impl Words {
    pub fn of_process() -> Self {
        Self(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect())
    }

    /// The first word that is left.
    pub fn next_word(&mut self) -> Option<String> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    /// The next word, which the help calls `what`.
    pub fn expect(&mut self, what: &str) -> Result<String, Usage> {
        self.next_word().ok_or_else(|| Usage(format!("{what} is missing")))
    }

    /// Whether this flag is given.
    pub fn flag(&mut self, flag: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != flag);
        self.0.len() < before
    }

    /// The value of an option, if it is given.
    pub fn option(&mut self, option: &str) -> Result<Option<String>, Usage> {
        let Some(place) = self.0.iter().position(|word| word == option) else { return Ok(None) };
        if place + 1 == self.0.len() {
            return Err(Usage(format!("{option} needs a value")));
        }
        self.0.remove(place);
        Ok(Some(self.0.remove(place)))
    }

    /// The values of an option that may be repeated.
    pub fn options(&mut self, option: &str) -> Result<Vec<String>, Usage> {
        std::iter::from_fn(|| self.option(option).transpose()).collect()
    }

    /// There must be no word left.
    pub fn end(self) -> Result<(), Usage> {
        match self.0.first() {
            Some(word) => Err(Usage(format!("`{word}` is one word too many"))),
            None => Ok(()),
        }
    }
}
