//! Whatever clients do, the memory store stays within its cap and keeps exhausted counters.
//!
//! One test, so that it has the machine to itself. A campaign takes longer:
//! `TOLLGATE_SOAK_KEYS=50000000 TOLLGATE_SOAK_BYTES=268435456 cargo test --release -p tollgate-store
//! --test memory_cap -- --nocapture`.

use std::hash::{BuildHasherDefault, DefaultHasher};

use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::MemoryStore;

const MEBIBYTE: usize = 1 << 20;
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
const DAY: Micros = Micros::from_secs(86_400);
/// What the process takes beside the store, and what the allocator cannot give back.
const OVERHEAD: usize = 48 * MEBIBYTE;
/// How often the bounds are checked.
const INTERVAL: u64 = 1_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

/// The memory this process takes, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("a Linux with /proc");
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    resident.expect("the second number") * 4096
}

fn limit(algorithm: Algorithm, units: u64) -> Limit {
    Quota::new(algorithm, units, DAY).compile().expect("a valid quota")
}

/// A store under attack, the clients to protect, and the worst that was seen.
struct Siege {
    store: MemoryStore,
    cap: usize,
    /// What the store may take beyond its cap.
    slack: usize,
    now: Timestamp,
    exhausted: Vec<(String, Limit)>,
    most_bytes: usize,
    most_resident: usize,
}

impl Siege {
    /// Exhausts a few clients of each algorithm.
    fn begin(cap: usize, slack: usize) -> Self {
        let clients = Algorithm::ALL.into_iter().flat_map(|algorithm| {
            (0..3).map(move |number| (format!("{algorithm} {number}"), limit(algorithm, 10)))
        });
        let exhausted = clients.collect::<Vec<_>>();
        let store = MemoryStore::with_bytes(cap);
        let siege =
            Self { store, cap, slack, now: NOW, exhausted, most_bytes: 0, most_resident: 0 };
        for (client, limit) in &siege.exhausted {
            assert!(siege.charge(client.as_bytes(), limit, 10), "{client}");
        }
        siege
    }

    fn charge(&self, subject: &[u8], limit: &Limit, cost: u64) -> bool {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let key = Key::new(&hasher, limit.algorithm().name(), subject, b"");
        self.store.settle_now(&[Charge { key, limit, cost, mode: Mode::Enforce }], self.now).passed
    }

    /// Charges one unit each to clients named by number, while time goes on.
    fn invent(&mut self, clients: impl Iterator<Item = u64>, limit: &Limit, pace: Micros) {
        for (turn, client) in (1..).zip(clients) {
            self.now = self.now.plus(pace);
            self.charge(&client.to_be_bytes(), limit, 1);
            if turn % INTERVAL == 0 {
                self.look();
            }
        }
        self.look();
    }

    fn look(&mut self) {
        for (client, limit) in &self.exhausted {
            assert!(!self.charge(client.as_bytes(), limit, 1), "{client} was forgotten");
        }
        let (bytes, resident) = (self.store.bytes(), resident());
        assert!(bytes <= self.cap + self.slack, "{bytes} bytes");
        assert!(resident <= self.cap + OVERHEAD, "{resident} bytes resident, {bytes} known");
        self.most_bytes = self.most_bytes.max(bytes);
        self.most_resident = self.most_resident.max(resident);
    }

    /// Lets everything expire, and says what was seen.
    fn end(self, what: &str) {
        let (held, evicted) = (self.store.len(), self.store.evicted());
        assert!(evicted > 0, "{what}: the cap was never reached");
        self.store.sweep(self.now.plus(DAY).plus(DAY));
        assert_eq!(self.store.len(), 0, "{what}");
        assert!(self.store.bytes() < MEBIBYTE, "{what}: {} bytes are left", self.store.bytes());
        println!(
            "{what}, cap {} MiB: {held} held and {evicted} evicted at the end, at most {} MiB known \
             and {} MiB resident, {} clients watched and all still exhausted, nothing left after a sweep",
            self.cap / MEBIBYTE,
            self.most_bytes.div_ceil(MEBIBYTE),
            self.most_resident.div_ceil(MEBIBYTE),
            self.exhausted.len(),
        );
    }
}

/// Which siege this process is to run.
const SIEGE: &str = "TOLLGATE_SIEGE";
const SIEGES: [fn(u64, usize); 5] = [
    invented_clients,
    growing_logs,
    logs_after_slots,
    |_, cap| exhausted_logs(cap, cap as u64 / 270, 1),
    |_, cap| exhausted_logs(cap, cap as u64 / 20_000, 1_100),
];

/// Each siege has a process to itself: what an allocator keeps of an earlier one would be counted.
#[test]
fn the_cap_holds_and_exhausted_counters_are_kept() {
    let keys = setting("TOLLGATE_SOAK_KEYS", 2_000_000);
    let cap = usize::try_from(setting("TOLLGATE_SOAK_BYTES", 16 << 20)).expect("a size");
    if let Ok(siege) = std::env::var(SIEGE) {
        return SIEGES[siege.parse::<usize>().expect("a number")](keys, cap);
    }
    let program = std::env::current_exe().expect("this program");
    for siege in 0..SIEGES.len() {
        let mut command = std::process::Command::new(&program);
        command.args(["the_cap_holds", "--nocapture"]).env(SIEGE, siege.to_string());
        assert!(command.status().expect("a process").success(), "siege {siege}");
    }
}

fn invented_clients(keys: u64, cap: usize) {
    let mut siege = Siege::begin(cap, MEBIBYTE);
    siege.invent(0..keys, &limit(Algorithm::Gcra, 10), Micros::new(1));
    siege.end(&format!("{keys} invented clients"));
}

/// Far fewer clients, but with logs of thousands of entries.
fn growing_logs(_: u64, cap: usize) {
    let clients = cap as u64 / 20_000;
    let mut siege = Siege::begin(cap, MEBIBYTE);
    let entries = (0..clients * 1_100).map(|turn| turn % clients);
    siege.invent(entries, &limit(Algorithm::SlidingWindowLog, 10_000), Micros::new(100));
    siege.end(&format!("{clients} clients with 1100 entries each"));
}

/// States that do not fit into a slot take the places of some that do, whose slots stay.
fn logs_after_slots(keys: u64, cap: usize) {
    let mut siege = Siege::begin(cap, cap / 4);
    siege.invent(0..keys / 2, &limit(Algorithm::Gcra, 10), Micros::new(1));
    siege.invent(0..keys / 8, &limit(Algorithm::SlidingWindowLog, 10), Micros::new(1));
    siege.end(&format!("{} invented clients, then {} with logs", keys / 2, keys / 8));
}

/// Clients that are all exhausted: some of them are evicted, but the cap holds.
fn exhausted_logs(cap: usize, clients: u64, entries: u64) {
    let mut siege = Siege::begin(cap, cap / 4);
    siege.exhausted.clear();
    let turns = (0..clients * entries).map(|turn| turn % clients);
    siege.invent(turns, &limit(Algorithm::SlidingWindowLog, entries), Micros::new(100));
    siege.end(&format!("{clients} clients that exhaust logs of {entries} entries"));
}
