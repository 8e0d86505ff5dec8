//! Who may do what: two roles, and how a client shows that it has one.
//!
//! At the Unix socket the kernel says who asks, and root and the server's own user are administrators. Over
//! TCP it is a token of a file that nobody else can read.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use axum::http::header::{AUTHORIZATION, HeaderMap};
use subtle::ConstantTimeEq as _;

use crate::problem::{Kind, Problem};

/// Shortest token, in bytes. Our choice: 16 random bytes are 22 letters of base64.
const TOKEN_BYTES_MIN: usize = 22;
/// Longest token file, in bytes. Our choice: far more than a token, and less than a request head.
const TOKEN_BYTES_MAX: u64 = 1024;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Read.
    ReadOnly,
    /// Read, and change the manager.
    Admin,
}

impl Role {
    /// Returns the word in documents.
    #[must_use]
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Admin => "admin",
        }
    }
}

/// Other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// A user of this machine, at the Unix socket.
    User(u32),
    /// An address, over TCP.
    Address,
}

/// Reason why a token file is not used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error(
        "cannot read the token file {path}: {cause}; make one with `(umask 077; head -c 32 /dev/urandom | base64 > {path})`"
    )]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Cause.
        cause: std::io::Error,
    },
    /// Others can read the file, or write it.
    #[error(
        "the token file {path} is open to others (mode {mode:03o}, user {owner}); `chmod 600` it, as a file of this user"
    )]
    Open {
        /// Path of the file.
        path: String,
        /// Its mode.
        mode: u32,
        /// Its owner.
        owner: u32,
    },
    /// What is in it is no token.
    #[error(
        "the token file {path} has no token: it must be one line of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible \
         ASCII characters; make one with `(umask 077; head -c 32 /dev/urandom | base64 > {path})`"
    )]
    NoToken {
        /// Path of the file.
        path: String,
    },
    /// Both roles would have one token.
    #[error("the token for reading is the same as that of the administrator; make another one")]
    Same,
}

/// A secret that stands for a role.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads a token of a file that belongs to this user or root and that others can neither read nor write.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let name = || path.display().to_string();
        let unreadable = |cause| TokenError::Unreadable { path: name(), cause };
        let mut file = File::open(path).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        let (mode, owner) = (found.mode() & 0o777, found.uid());
        if mode & 0o077 != 0 || ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
            return Err(TokenError::Open { path: name(), mode, owner });
        }
        let mut bytes = Vec::new();
        (&mut file).take(TOKEN_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let token = bytes.trim_ascii_end();
        let is_long_enough = token.len() >= TOKEN_BYTES_MIN && bytes.len() as u64 <= TOKEN_BYTES_MAX;
        if !is_long_enough || !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::NoToken { path: name() });
        }
        Ok(Self(token.to_owned()))
    }

    /// Compares in a time that does not depend on where they differ.
    fn is(&self, bytes: &[u8]) -> bool {
        self.0.ct_eq(bytes).into()
    }
}

/// The tokens of a server.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    admin: Option<Token>,
    read_only: Option<Token>,
}

impl Tokens {
    /// Returns the tokens of a server.
    ///
    /// # Errors
    /// [`TokenError::Same`].
    pub fn new(admin: Option<Token>, read_only: Option<Token>) -> Result<Self, TokenError> {
        match (&admin, &read_only) {
            (Some(admin), Some(other)) if admin.is(&other.0) => Err(TokenError::Same),
            _ => Ok(Self { admin, read_only }),
        }
    }

    /// Returns the role of a client.
    pub(crate) fn role(&self, peer: Peer, headers: &HeaderMap) -> Result<Role, Problem> {
        match peer {
            Peer::User(user) if user == 0 || user == rustix::process::geteuid().as_raw() => Ok(Role::Admin),
            Peer::User(user) => {
                Err(Problem::new(Kind::WrongUser, "the Unix socket", format!("the client is user {user}")))
            }
            Peer::Address => self.role_of_token(headers),
        }
    }

    fn role_of_token(&self, headers: &HeaderMap) -> Result<Role, Problem> {
        let place = "header Authorization";
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Err(Problem::new(Kind::NoCredentials, place, "the header is missing"));
        };
        let Some(token) = bearer(value.as_bytes()) else {
            let why = "the header is not of the form `Bearer TOKEN`";
            return Err(Problem::new(Kind::NoCredentials, place, why));
        };
        // Both are compared, whatever the first comparison says.
        let is = |known: &Option<Token>| known.as_ref().is_some_and(|known| known.is(token));
        match (is(&self.admin), is(&self.read_only)) {
            (true, _) => Ok(Role::Admin),
            (false, true) => Ok(Role::ReadOnly),
            (false, false) => Err(Problem::new(Kind::WrongToken, place, "it is no token of this server")),
        }
    }
}

/// Returns the token of a header of the scheme `Bearer` (RFC 6750, section 2.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_file_is_private_and_holds_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(matches!(Token::read(&path), Err(TokenError::Unreadable { .. })));
        let read = |text: &str, mode: u32| {
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        let good = "0123456789abcdef0123456789abcdef\n";
        assert!(read(good, 0o600).unwrap().is(good.trim().as_bytes()));
        assert!(read(good, 0o400).is_ok());
        for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o777] {
            assert!(matches!(read(good, mode), Err(TokenError::Open { .. })), "{mode:o}");
        }
        let long = "a".repeat(2000);
        for text in
            ["", "\n", "short\n", "two words of more than 22 letters", "ünïcödé-ünïcödé-ünïcödé", &long]
        {
            assert!(matches!(read(text, 0o600), Err(TokenError::NoToken { .. })), "{text:?}");
        }
        let token = read(good, 0o600).unwrap();
        assert!(matches!(Tokens::new(Some(token.clone()), Some(token.clone())), Err(TokenError::Same)));
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn a_token_decides_over_tcp_and_the_user_at_the_socket() {
        let token = |text: &str| Some(Token(text.as_bytes().to_owned()));
        let tokens = Tokens::new(token("the-admin"), token("the-reader")).unwrap();
        let role = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            tokens.role(Peer::Address, &headers).ok()
        };
        assert_eq!(role("Bearer the-admin"), Some(Role::Admin));
        assert_eq!(role("bearer  the-reader"), Some(Role::ReadOnly));
        for value in
            ["Bearer", "Bearer ", "Bearer the-admi", "Bearer the-admin2", "Basic the-admin", "the-admin"]
        {
            assert_eq!(role(value), None, "{value}");
        }
        let none = HeaderMap::new();
        assert!(tokens.role(Peer::Address, &none).is_err());
        assert!(Tokens::default().role(Peer::Address, &none).is_err());
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(tokens.role(Peer::User(0), &none).ok(), Some(Role::Admin));
        assert_eq!(tokens.role(Peer::User(own), &none).ok(), Some(Role::Admin));
        assert!(tokens.role(Peer::User(own + 1), &none).is_err());
    }
}
