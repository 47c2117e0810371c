//! How much room a file system has left, so that a log leaves some of it for what matters more.

use std::path::Path;

/// What a log leaves free: a tenth of the file system, within these bounds.
const MIN_RESERVE: u64 = 16 << 20;
const MAX_RESERVE: u64 = 256 << 20;

/// How much room there is for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It may grow.
    Enough,
    /// New records take the place of old ones.
    Little,
    /// Nothing is written.
    None,
}

/// How much room there is beside this file. If the system does not tell, there is enough.
pub(crate) fn room_beside(file: &Path) -> Room {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(system) = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))) else {
        return Room::Enough;
    };
    let size = system.f_blocks.saturating_mul(system.f_frsize);
    room(size, system.f_bavail.saturating_mul(system.f_frsize))
}

fn room(size: u64, free: u64) -> Room {
    let reserve = (size / 10).clamp(MIN_RESERVE, MAX_RESERVE);
    if free >= reserve {
        Room::Enough
    } else if free >= reserve / 2 {
        Room::Little
    } else {
        Room::None
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
        check(100_000, 256, Room::Enough);
        check(100_000, 255, Room::Little);
        check(100_000, 127, Room::None);
        check(1_000, 100, Room::Enough);
        check(1_000, 99, Room::Little);
        check(1_000, 49, Room::None);
        check(32, 16, Room::Enough);
        check(6, 6, Room::None);
    }

    #[test]
    fn folders_are_asked() {
        assert_eq!(room_beside(Path::new("/no/such/folder/file.db")), Room::Enough);
        assert_ne!(room_beside(Path::new("Cargo.toml")), Room::None, "a machine with a full disk");
    }
}
