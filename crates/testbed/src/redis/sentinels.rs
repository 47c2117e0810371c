//! A master, its replicas, and the sentinels that put a replica in the place of a lost master.

use std::net::SocketAddr;

use tempfile::TempDir;

use super::{PROGRAM, Redis, address, process};
use crate::port::free_port;
use crate::process::{Process, temporary_folder};
use crate::resp::{Reply, ask};
use crate::wait::until;

/// All of them, running.
pub struct Sentinels {
    sentinels: Vec<Sentinel>,
    servers: Vec<Redis>,
    master_name: String,
}

struct Sentinel {
    // First, so that it has ended before its folder goes.
    process: Process,
    _folder: TempDir,
    port: u16,
}

impl Sentinels {
    /// Starts a master with so many replicas, and sentinels that know it by a name. Returns once
    /// they know each other and every replica. More than half of them have to agree to replace a
    /// master, after a second of silence.
    pub fn start(sentinels: usize, master_name: &str, replicas: usize) -> Self {
        let master = Redis::start();
        let place = format!("127.0.0.1 {}", master.port());
        let replica = |_| Redis::builder().setting("replicaof", &place).start();
        let replicas: Vec<Redis> = (0..replicas).map(replica).collect();
        until("replicas in sync", || replicas.iter().all(Redis::is_in_sync).then_some(()));

        let quorum = sentinels / 2 + 1;
        let settings = format!(
            "bind 127.0.0.1\n\
             sentinel monitor {master_name} {place} {quorum}\n\
             sentinel down-after-milliseconds {master_name} 1000\n\
             sentinel failover-timeout {master_name} 3000\n"
        );
        let sentinels = (0..sentinels).map(|_| Sentinel::start(&settings)).collect();
        let servers = [master].into_iter().chain(replicas).collect();
        let all = Self { sentinels, servers, master_name: master_name.to_owned() };
        until("sentinels that know each other", || {
            all.sentinels.iter().all(|sentinel| all.is_known_to(sentinel)).then_some(())
        });
        all
    }

    /// What a client needs to find the master, wherever it is.
    pub fn url(&self) -> String {
        let addresses = self.sentinels.iter().map(|sentinel| address(sentinel.port).to_string());
        let addresses = addresses.collect::<Vec<_>>().join(",");
        format!("redis+sentinel://{addresses}/{}", self.master_name)
    }

    /// All servers, of which one is the master.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// The processes of the sentinels.
    pub fn process_ids(&self) -> Vec<u32> {
        self.sentinels.iter().filter_map(|sentinel| sentinel.process.id()).collect()
    }

    /// Where the sentinels say that the master is.
    pub fn master_address(&self) -> SocketAddr {
        let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master_name];
        let answer = self.sentinels.iter().find_map(|sentinel| sentinel.ask(&question));
        let answer = answer.expect("a sentinel that responds");
        let place = answer.list().iter().map(Reply::text).collect::<Vec<_>>().join(":");
        place.parse().unwrap_or_else(|_| panic!("not an address: {place}"))
    }

    /// The master.
    pub fn master(&self) -> &Redis {
        let address = self.master_address();
        let mut servers = self.servers.iter();
        servers.find(|server| server.address() == address).expect("a master that was started here")
    }

    /// Kills the master without warning.
    pub fn kill_master(&self) {
        self.master().kill();
    }

    fn is_known_to(&self, sentinel: &Sentinel) -> bool {
        let Some(answer) = sentinel.ask(&["SENTINEL", "MASTER", &self.master_name]) else {
            return false;
        };
        let words: Vec<&str> = answer.list().iter().map(Reply::text).collect();
        let has = |name: &str, value: usize| {
            words.chunks_exact(2).any(|pair| pair == [name, &value.to_string()])
        };
        has("num-other-sentinels", self.sentinels.len() - 1)
            && has("num-slaves", self.servers.len() - 1)
    }
}

impl Sentinel {
    fn start(settings: &str) -> Self {
        let folder = temporary_folder();
        let port = free_port();
        let place = format!("port {port}\ndir \"{}\"\n", folder.path().display());
        // Where no package installs a sentinel, the server still can be one.
        let settings = format!("{place}{settings}");
        let process = process([PROGRAM.into()], &folder, &settings, &["--sentinel"]);
        let sentinel = Self { process, _folder: folder, port };
        sentinel.process.start(|| sentinel.ask(&["PING"]).is_some());
        sentinel
    }

    fn ask(&self, command: &[&str]) -> Option<Reply> {
        if !self.process.is_awake() {
            return None;
        }
        ask(address(self.port), &[command]).ok()
    }
}
