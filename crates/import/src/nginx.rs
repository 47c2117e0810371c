//! The limits of an nginx configuration as a policy, to replace `limit_req`.
//!
//! ```
//! use tollgate_import::nginx::import;
//!
//! let file = "
//! http {
//!     limit_req_zone $binary_remote_addr zone=perip:10m rate=10r/s;
//!     server {
//!         location /api/ { limit_req zone=perip burst=20 nodelay; }
//!     }
//! }";
//! let imported = import(&[("nginx.conf", file)], &mut |_, _| Ok(Vec::new())).expect("valid");
//! let rule = &imported.document.rules[0];
//! assert_eq!((rule.limit, rule.burst), (10, Some(21)));
//! assert_eq!(rule.applies_to.endpoints, ["/api/*"]);
//! ```
//!
//! What is not obvious in these files, and decides which rules are made of them:
//!
//! - A limit lets `burst` requests pass beside the one that the rate allows, so a burst of 20 is a
//!   capacity of 21. Without `nodelay` they are held back, as in a leaky bucket; with `delay=N` those
//!   beyond N are.
//! - A zone is a set of counters, and every limit that names it uses the same ones. Limits of one zone
//!   that do the same are one rule, wherever they stand; others would not fit into one, and count
//!   apart.
//! - A location or server inherits limits only if it sets none itself. A rule applies wherever it
//!   matches, so the rules of a narrower place replace those of a wider one, and where a narrower
//!   place has no limits, it costs nothing.
//! - A `return` responds before anything is counted.
//! - Requests with an empty key are not counted, just as a rule skips those without its identifier.

mod directive;
mod host;
mod key;
mod level;
mod lexer;
mod limit;
mod location;
mod note;
mod place;
mod reader;
mod site;
mod survey;
mod to_document;
mod walk;

use tollgate_rules::PolicyDocument;

use crate::FileProblem;
use crate::nginx::reader::ConfigReader;
use crate::nginx::survey::Survey;
use crate::nginx::to_document::to_document;
use crate::nginx::walk::walk;

pub use crate::nginx::note::{NginxLoss, NginxNote, NoteSubject};
pub use crate::nginx::place::FilePosition;
pub use crate::nginx::reader::{Include, NginxFile};

/// A configuration as a policy.
#[derive(Clone, Debug)]
pub struct NginxImport {
    /// The policy: rules in the order in which their limits stand in the files.
    pub document: PolicyDocument,
    /// Where the rules differ from the files.
    pub notes: Vec<NginxNote>,
    /// How many zones the files define.
    pub zones: usize,
    /// How many times they limit something by one.
    pub limits: usize,
}

/// Makes a policy of files, each given by its name and its text; what they include is fetched by
/// `include`. Several files are taken as parts of one configuration.
///
/// # Errors
/// Everything that is wrong with any of them, as far as it concerns limits.
pub fn import<'a>(
    files: &[(&str, &str)],
    include: &'a mut Include<'a>,
) -> Result<NginxImport, Vec<FileProblem>> {
    let mut reader = ConfigReader::new(include);
    let mut directives = Vec::new();
    for (name, text) in files {
        directives.append(&mut reader.read(name, text));
    }
    let mut findings = reader.findings;
    let survey = Survey::read(&directives, &mut findings);
    let site = walk(&directives, &mut findings);
    let document = to_document(&survey, site, &mut findings);
    if !findings.problems.is_empty() {
        return Err(findings.problems);
    }
    let (zones, limits) = (survey.zones.len(), survey.uses.len());
    Ok(NginxImport { document, notes: findings.notes, zones, limits })
}
