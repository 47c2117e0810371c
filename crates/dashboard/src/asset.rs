//! The files that pages load: one stylesheet, one script, one icon. Their names carry a digest of their content, so
//! that browsers may keep them forever.

/// A file that pages load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its type, for the header `Content-Type`.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static str,
    stem: &'static str,
    extension: &'static str,
}

/// The prefix of the addresses of assets.
pub const ASSETS: &str = "/ui/assets/";

/// How browsers look.
pub(crate) const STYLE: Asset = Asset {
    content_type: "text/css; charset=utf-8",
    content: include_str!("../assets/dashboard.css"),
    stem: "dashboard",
    extension: "css",
};
/// What moves.
pub(crate) const SCRIPT: Asset = Asset {
    content_type: "text/javascript; charset=utf-8",
    content: include_str!("../assets/dashboard.js"),
    stem: "dashboard",
    extension: "js",
};
/// The icon of browser tabs.
pub(crate) const ICON: Asset = Asset {
    content_type: "image/svg+xml",
    content: include_str!("../assets/icon.svg"),
    stem: "icon",
    extension: "svg",
};

/// All of them.
pub const ALL: [Asset; 3] = [STYLE, SCRIPT, ICON];

impl Asset {
    /// Its address on the server.
    #[must_use]
    pub fn path(&self) -> String {
        let Self { stem, extension, content, .. } = self;
        format!("{ASSETS}{stem}-{:016x}.{extension}", digest(content.as_bytes()))
    }

    /// The asset at an address.
    #[must_use]
    pub fn find(path: &str) -> Option<Self> {
        ALL.into_iter().find(|asset| asset.path() == path)
    }
}

/// FNV-1a. It tells versions of a file apart; it protects nothing.
const fn digest(content: &[u8]) -> u64 {
    let mut digest: u64 = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < content.len() {
        digest = (digest ^ content[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_is_found_by_its_address_only() {
        for asset in ALL {
            assert_eq!(Asset::find(&asset.path()), Some(asset));
        }
        assert_eq!(Asset::find("/ui/assets/dashboard.css"), None);
    }
}
