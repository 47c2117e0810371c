//! Which header fields to send: standards differ, and clients know different ones.

use std::fmt;
use std::str::FromStr;

/// A set of header fields that report limits. The IETF fields are named by the draft that defines them, since no two
/// drafts agree and none is a standard yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderFamily {
    /// `X-RateLimit-Limit`, `-Remaining`, `-Policy`, and `-Reset` in seconds since the epoch.
    XRateLimit,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Policy`, and `-Reset` in seconds from now.
    XRateLimitDelta,
    /// `RateLimit-Policy` and `RateLimit`, lists of all rules that applied. Drafts 8 to 11.
    Draft11,
    /// `RateLimit: limit=5, remaining=4, reset=60`, and `RateLimit-Policy`.
    Draft7,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset` in seconds from now, and `-Policy`.
    Draft6,
}

impl HeaderFamily {
    /// All families.
    pub const ALL: [Self; 5] =
        [Self::XRateLimit, Self::XRateLimitDelta, Self::Draft11, Self::Draft7, Self::Draft6];

    /// The name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::XRateLimit => "x-ratelimit",
            Self::XRateLimitDelta => "x-ratelimit-delta",
            Self::Draft11 => "draft-11",
            Self::Draft7 => "draft-7",
            Self::Draft6 => "draft-6",
        }
    }
}

impl fmt::Display for HeaderFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HeaderFamily {
    type Err = UnknownFamily;

    fn from_str(text: &str) -> Result<Self, UnknownFamily> {
        let family = Self::ALL.into_iter().find(|family| family.name() == text);
        family.ok_or_else(|| UnknownFamily(text.to_owned()))
    }
}

/// There is no family with this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFamily(String);

impl fmt::Display for UnknownFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = HeaderFamily::ALL.map(HeaderFamily::name).join(", ");
        write!(f, "there is no header family {:?}; known are {known}", self.0)
    }
}

impl std::error::Error for UnknownFamily {}

/// Two families that use the same field for different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollidingFamilies(HeaderFamily, HeaderFamily);

impl fmt::Display for CollidingFamilies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(one, other) = self;
        write!(f, "{one} and {other} use the same header fields; choose one of them")
    }
}

impl std::error::Error for CollidingFamilies {}

/// The families to send: at most one with an `X-` and one of a draft, for the others would overwrite
/// each other's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderFamilies {
    pub(super) x: Option<ResetForm>,
    pub(super) draft: Option<HeaderDraft>,
}

/// The unit of `X-RateLimit-Reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetForm {
    Epoch,
    Delta,
}

/// The draft whose fields are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderDraft {
    Eleven,
    Seven,
    Six,
}

impl HeaderFamilies {
    /// No family: only refusals have fields, those that HTTP itself defines.
    #[must_use]
    pub const fn none() -> Self {
        Self { x: None, draft: None }
    }

    /// A set of families.
    ///
    /// # Errors
    /// Two of them use the same fields.
    pub fn new(
        families: impl IntoIterator<Item = HeaderFamily>,
    ) -> Result<Self, CollidingFamilies> {
        families.into_iter().try_fold(Self::none(), |chosen, family| {
            let with = chosen.with(family);
            match chosen.iter().find(|earlier| !with.iter().any(|kept| kept == *earlier)) {
                Some(lost) => Err(CollidingFamilies(lost, family)),
                None => Ok(with),
            }
        })
    }

    /// The families, in the order in which their fields are written.
    pub fn iter(self) -> impl Iterator<Item = HeaderFamily> {
        let x = self.x.map(|reset| match reset {
            ResetForm::Epoch => HeaderFamily::XRateLimit,
            ResetForm::Delta => HeaderFamily::XRateLimitDelta,
        });
        let draft = self.draft.map(|draft| match draft {
            HeaderDraft::Eleven => HeaderFamily::Draft11,
            HeaderDraft::Seven => HeaderFamily::Draft7,
            HeaderDraft::Six => HeaderFamily::Draft6,
        });
        x.into_iter().chain(draft)
    }

    const fn with(mut self, family: HeaderFamily) -> Self {
        match family {
            HeaderFamily::XRateLimit => self.x = Some(ResetForm::Epoch),
            HeaderFamily::XRateLimitDelta => self.x = Some(ResetForm::Delta),
            HeaderFamily::Draft11 => self.draft = Some(HeaderDraft::Eleven),
            HeaderFamily::Draft7 => self.draft = Some(HeaderDraft::Seven),
            HeaderFamily::Draft6 => self.draft = Some(HeaderDraft::Six),
        }
        self
    }
}

/// What most clients support, and the newest draft: `x-ratelimit` and `draft-11`.
impl Default for HeaderFamilies {
    fn default() -> Self {
        Self::none().with(HeaderFamily::XRateLimit).with(HeaderFamily::Draft11)
    }
}
