//! How much room a file system has left, so that logs and tenants leave some of it for operators.

use std::path::Path;

/// What a log leaves free: a tenth of the file system, within these bounds.
const MIN_RESERVE: u64 = 16 << 20;
const MAX_RESERVE: u64 = 256 << 20;

/// How much room there is for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogSpace {
    /// It may grow.
    Enough,
    /// New records take the place of old ones.
    Little,
    /// Nothing is written.
    None,
}

/// How much room there is beside this file: enough, if the system does not report it.
pub(crate) fn room_beside(file: &Path) -> LogSpace {
    size_and_free(file).map_or(LogSpace::Enough, |(size, free)| room(size, free))
}

/// Whether tenants may write to this database, of whose pages `unused` bytes are free. The rest of the reserve
/// is for operators. Tenants may use more of it than the decision log, which would lock them out otherwise.
pub(crate) fn has_room_for_tenants(file: &Path, unused: u64) -> bool {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let log = std::fs::metadata(log).map_or(0, |log| log.len());
    size_and_free(file).is_none_or(|(size, free)| tenants_may_write(size, free, unused, log))
}

/// The size of the file system and what is free of it, in bytes.
fn size_and_free(file: &Path) -> Option<(u64, u64)> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let system = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(system.f_frsize);
    Some((bytes(system.f_blocks), bytes(system.f_bavail)))
}

fn reserve(size: u64) -> u64 {
    (size / 10).clamp(MIN_RESERVE, MAX_RESERVE)
}

/// Changes first go to the write-ahead log, which is written again from its beginning, and then to pages.
fn tenants_may_write(size: u64, free: u64, unused: u64, log: u64) -> bool {
    let reserve = reserve(size);
    free.saturating_add(log) >= reserve / 2 && free.saturating_add(unused) >= reserve / 4 * 3
}

fn room(size: u64, free: u64) -> LogSpace {
    let reserve = reserve(size);
    if free >= reserve {
        LogSpace::Enough
    } else if free >= reserve / 2 {
        LogSpace::Little
    } else {
        LogSpace::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_leaves_room_for_others() {
        const MIB: u64 = 1 << 20;
        let check = |size: u64, free: u64, expected| {
            assert_eq!(room(size * MIB, free * MIB), expected, "{free} of {size} MiB");
        };
        check(100_000, 256, LogSpace::Enough);
        check(100_000, 255, LogSpace::Little);
        check(100_000, 127, LogSpace::None);
        check(1_000, 100, LogSpace::Enough);
        check(1_000, 99, LogSpace::Little);
        check(1_000, 49, LogSpace::None);
        check(32, 16, LogSpace::Enough);
        check(6, 6, LogSpace::None);
    }

    #[test]
    fn tenants_leave_room_for_operators() {
        const MIB: u64 = 1 << 20;
        let check = |size: u64, free: u64, unused: u64, log: u64, expected| {
            let may_write = tenants_may_write(size * MIB, free * MIB, unused * MIB, log * MIB);
            assert_eq!(
                may_write, expected,
                "{free} of {size} MiB, {unused} in pages, {log} in the log"
            );
        };
        check(100_000, 192, 0, 0, true);
        check(100_000, 191, 0, 1_000, false);
        check(100_000, 128, 64, 0, true);
        check(100_000, 127, 1_000, 0, false);
        check(100_000, 127, 1_000, 1, true);
        check(100, 12, 0, 0, true);
        check(100, 11, 0, 0, false);
        check(6, 6, 0, 0, false);
    }

    #[test]
    fn folders_are_asked() {
        assert_eq!(room_beside(Path::new("/no/such/folder/file.db")), LogSpace::Enough);
        assert_ne!(
            room_beside(Path::new("Cargo.toml")),
            LogSpace::None,
            "a machine with a full disk"
        );
    }
}
