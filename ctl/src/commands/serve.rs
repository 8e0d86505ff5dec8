//! `headgate serve`: a manager's API over HTTP.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use headgate_api::place;
use headgate_host::signals;
use headgate_web::auth::{Token, Tokens};
use headgate_web::{Manager, Server, openapi};
use serde_json::json;

use super::Name;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Serve the API of a manager over HTTP, until Ctrl-C
///
/// On a Unix socket for this user and root, and with --listen also on an address of this machine for those
/// who send a token. The manager need not run: requests say so meanwhile.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    name: Name,
    /// Path of the Unix socket [default: NAME+http.sock beside the manager's own]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Loopback address and port to listen on, for those who send a token
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// File with the token of those who may do everything; nobody else may be able to read it
    #[arg(long, value_name = "FILE", requires = "listen")]
    token: Option<PathBuf>,
    /// File with the token of those who may only read; nobody else may be able to read it
    #[arg(long, value_name = "FILE", requires = "listen")]
    read_token: Option<PathBuf>,
    /// Print the OpenAPI document of the API to standard output, and end
    #[arg(long, exclusive = true)]
    openapi: bool,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    if args.openapi {
        out.text(format!("{:#}\n", openapi::document()))?;
        out.document(&openapi::document())?;
        return Ok(Exit::Ok);
    }
    if args.listen.is_some() && args.token.is_none() && args.read_token.is_none() {
        return Err(CommandError::usage(
            "--listen needs --token FILE, --read-token FILE or both: who reaches the address must show one; make \
             one with `(umask 077; head -c 32 /dev/urandom | base64 > FILE)`",
        ));
    }
    let tokens = Tokens::new(token(args.token.as_deref())?, token(args.read_token.as_deref())?);
    let tokens = tokens.map_err(CommandError::environment)?;
    let name = &args.name.name;
    let socket = args.socket.clone().unwrap_or_else(|| place::http_socket(name));
    let wish = signals::catch()?;
    let server = Server::api(Manager::named(name), &socket, args.listen, tokens);
    let server = server.map_err(CommandError::environment)?;
    let address = server.address();
    out.document_line(&json!({ "manager": name, "socket": &socket, "address": address }))?;
    out.note(format!("the API of manager {name} is at {}", socket.display()));
    if let Some(address) = address {
        out.note(format!("and, with a token, at http://{address}"));
    }
    server.run(|| wish.count() > 0);
    Ok(Exit::Ok)
}

fn token(path: Option<&Path>) -> Result<Option<Token>, CommandError> {
    path.map(Token::read).transpose().map_err(CommandError::environment)
}
