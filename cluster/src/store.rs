//! Operations of an etcd (version 3) that nodes need, by its JSON interface: reads, transactions, leases.
//!
//! Whatever a server answers is checked, bounded in size and in time. One that does not answer is left for
//! the next of the list.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

/// Longest answer. Our choice: a cluster's keys are some 100 bytes each, a few for each node.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No server answered as one.
    #[error("{server}: {why}")]
    Unanswered {
        /// The server.
        server: SocketAddr,
        /// What happened.
        why: String,
    },
}

/// A key, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: Vec<u8>,
    /// Revision of the store in which it was made.
    pub created: u64,
    /// Revision in which it was written last.
    pub written: u64,
}

/// Lease: keys under it are gone when it has not been renewed in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease(u64);

/// Condition of a transaction. A revision of 0 is that of a key that is not there.
#[derive(Clone, Debug)]
pub enum If<'k> {
    /// The key was made in this revision.
    Created(&'k str, u64),
    /// The key was written last in this revision.
    Written(&'k str, u64),
}

/// Change of a transaction.
#[derive(Clone, Debug)]
pub enum Then<'k> {
    /// Sets a key, under a lease.
    Put(&'k str, String, Lease),
    /// Sets a key that stays.
    Keep(&'k str, String),
    /// Removes a key.
    Delete(&'k str),
    /// Removes all keys from the first on, the last one left out.
    DeleteBetween(&'k str, &'k str),
}

/// A store.
#[derive(Debug)]
pub struct Store {
    servers: Vec<SocketAddr>,
    /// The server that is asked.
    asked: usize,
    client: ureq::Agent,
}

impl Store {
    /// Returns a store of these servers, which wait no longer than this for an answer.
    pub fn new(servers: Vec<SocketAddr>, patience: Duration) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(patience)).max_redirects(0);
        Self { servers, asked: 0, client: ureq::Agent::new_with_config(config.build()) }
    }

    /// Returns the server that is asked.
    pub fn server(&self) -> String {
        self.servers.get(self.asked).map(SocketAddr::to_string).unwrap_or_default()
    }

    /// Returns how many servers there are.
    pub const fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Returns all keys that begin so, in order.
    pub fn range(&mut self, prefix: &str) -> Result<Vec<Entry>, StoreError> {
        self.entries(&json!({ "key": encoded(prefix), "range_end": STANDARD.encode(after(prefix)) }))
    }

    /// Returns one key; `None` where it is not there.
    pub fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
        let mut entries = self.entries(&json!({ "key": encoded(key) }))?;
        Ok(entries.pop().filter(|entry| entry.key == key))
    }

    fn entries(&mut self, body: &Json) -> Result<Vec<Entry>, StoreError> {
        let answer: RangeAnswer = self.ask("kv/range", body)?;
        let entries: Result<Vec<Entry>, String> = answer.kvs.into_iter().map(EntryAnswer::entry).collect();
        entries.map_err(|why| self.unanswered(why))
    }

    /// Makes changes if conditions hold, all or none. Returns whether they held.
    pub fn transact(&mut self, conditions: &[If<'_>], changes: &[Then<'_>]) -> Result<bool, StoreError> {
        let condition = |one: &If<'_>| match one {
            If::Created(key, revision) => {
                json!({ "key": encoded(key), "target": "CREATE", "result": "EQUAL", "create_revision": revision.to_string() })
            }
            If::Written(key, revision) => {
                json!({ "key": encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() })
            }
        };
        let change = |one: &Then<'_>| match one {
            Then::Put(key, value, Lease(lease)) => json!({ "request_put": {
                "key": encoded(key), "value": encoded(value), "lease": lease.to_string()
            }}),
            Then::Keep(key, value) => {
                json!({ "request_put": { "key": encoded(key), "value": encoded(value) } })
            }
            Then::Delete(key) => json!({ "request_delete_range": { "key": encoded(key) } }),
            Then::DeleteBetween(from, to) => {
                json!({ "request_delete_range": { "key": encoded(from), "range_end": encoded(to) } })
            }
        };
        let body = json!({
            "compare": conditions.iter().map(condition).collect::<Vec<_>>(),
            "success": changes.iter().map(change).collect::<Vec<_>>(),
        });
        let answer: TransactionAnswer = self.ask("kv/txn", &body)?;
        Ok(answer.succeeded)
    }

    /// Takes a lease of so many seconds.
    pub fn grant(&mut self, seconds: u64) -> Result<Lease, StoreError> {
        let answer: LeaseAnswer = self.ask("lease/grant", &json!({ "TTL": seconds.to_string() }))?;
        match number(&answer.id) {
            Ok(0) | Err(_) => Err(self.unanswered("it gave no lease".to_owned())),
            Ok(id) => Ok(Lease(id)),
        }
    }

    /// Renews a lease. Returns whether it was still there.
    pub fn renew(&mut self, Lease(id): Lease) -> Result<bool, StoreError> {
        let answer: RenewalAnswer = self.ask("lease/keepalive", &json!({ "ID": id.to_string() }))?;
        Ok(answer.result.is_some_and(|lease| number(&lease.ttl).is_ok_and(|seconds| seconds > 0)))
    }

    /// Ends a lease: its keys are gone at once.
    pub fn revoke(&mut self, Lease(id): Lease) -> Result<(), StoreError> {
        self.ask::<Json>("lease/revoke", &json!({ "ID": id.to_string() })).map(drop)
    }

    /// Leaves the server for the next one. Returns why.
    fn unanswered(&mut self, why: String) -> StoreError {
        let server = self.servers[self.asked];
        self.asked = (self.asked + 1) % self.servers.len();
        StoreError::Unanswered { server, why }
    }

    /// Asks a server.
    fn ask<T: DeserializeOwned>(&mut self, what: &str, body: &Json) -> Result<T, StoreError> {
        let url = format!("http://{}/v3/{what}", self.servers[self.asked]);
        let sent = self.client.post(&url).content_type("application/json").send(body.to_string());
        let text = sent
            .and_then(|mut answer| answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string());
        let read = text.map_err(|error| error.to_string()).and_then(|text| {
            serde_json::from_str(&text).map_err(|error| format!("it does not answer as etcd does: {error}"))
        });
        read.map_err(|why| self.unanswered(why))
    }
}

/// Returns the first key that no longer begins so.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    // No text has the highest byte in it.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// Integers of 64 bits are strings in JSON, and left out where they are 0.
fn number(text: &str) -> Result<u64, String> {
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| format!("{text:?} is no number")) }
}

#[derive(Deserialize)]
struct RangeAnswer {
    #[serde(default)]
    kvs: Vec<EntryAnswer>,
}

#[derive(Deserialize)]
struct EntryAnswer {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    create_revision: String,
    #[serde(default)]
    mod_revision: String,
}

impl EntryAnswer {
    fn entry(self) -> Result<Entry, String> {
        let bytes = |text: &str| STANDARD.decode(text).map_err(|error| format!("{text:?}: {error}"));
        let key = String::from_utf8(bytes(&self.key)?).map_err(|error| format!("a key: {error}"))?;
        let (created, written) = (number(&self.create_revision)?, number(&self.mod_revision)?);
        Ok(Entry { key, value: bytes(&self.value)?, created, written })
    }
}

#[derive(Deserialize)]
struct TransactionAnswer {
    #[serde(default)]
    succeeded: bool,
}

#[derive(Deserialize)]
struct LeaseAnswer {
    #[serde(rename = "ID", default)]
    id: String,
    #[serde(rename = "TTL", default)]
    ttl: String,
}

#[derive(Deserialize)]
struct RenewalAnswer {
    result: Option<LeaseAnswer>,
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(300);

    /// A server that answers each request with these bytes, and closes.
    fn server(answer: impl Fn() -> Vec<u8> + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                // One that has heard enough closes before.
                let _ = stream.write_all(&answer());
            }
        });
        address
    }

    fn ok(body: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()).into()
    }

    #[test]
    fn what_no_etcd_answers_is_an_error_in_bounded_time_and_the_next_server_is_asked() {
        let endless = || {
            let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n{\"kvs\":[".to_vec();
            bytes.resize(bytes.len() + 2 * ANSWER_BYTES_MAX as usize, b' ');
            bytes
        };
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let wrong: Vec<SocketAddr> = vec![
            server(|| b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
            server(|| ok("<html>")),
            server(|| ok(r#"{"kvs":[{"key":"!"}]}"#)),
            server(|| ok(r#"{"kvs":[{"key":"YQ==","create_revision":"-1"}]}"#)),
            server(|| b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec()),
            server(|| {
                b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n".to_vec()
            }),
            server(endless),
            silent.local_addr().unwrap(),
            // Nobody listens there.
            SocketAddr::from(([127, 0, 0, 1], 1)),
        ];
        for address in wrong {
            let good =
                server(|| ok(r#"{"header":{},"kvs":[{"key":"YQ==","value":"Yg==","mod_revision":"7"}]}"#));
            let mut store = Store::new(vec![address, good], PATIENCE);
            let began = Instant::now();
            let error = store.range("a").unwrap_err().to_string();
            assert!(error.starts_with(&address.to_string()), "{error}");
            assert!(began.elapsed() < 20 * PATIENCE, "{address}: {:?}", began.elapsed());
            let entry = Entry { key: "a".to_owned(), value: b"b".to_vec(), created: 0, written: 7 };
            assert_eq!(store.range("a").unwrap(), [entry]);
        }
    }

    #[test]
    fn a_lease_that_is_none_is_an_error_and_one_that_ended_is_no_lease() {
        let mut none = Store::new(vec![server(|| ok("{}"))], PATIENCE);
        assert!(none.grant(5).unwrap_err().to_string().contains("it gave no lease"));
        for (answer, held) in
            [(r#"{"result":{"ID":"3","TTL":"5"}}"#, true), (r#"{"result":{"ID":"3"}}"#, false)]
        {
            let mut store = Store::new(vec![server(move || ok(answer))], PATIENCE);
            assert_eq!(store.renew(Lease(3)).unwrap(), held);
        }
    }
}
