//! The changes of a catalog: entry by entry, field by field.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{Mood, Paint};
use crate::terminal::{grouped, printable};

/// The changes that the server made, or would make.
#[derive(Debug, Deserialize)]
pub(crate) struct ChangePlan {
    pub(super) revision: u64,
    pub(super) changes: Vec<PlannedChange>,
}

/// An entry before and after.
#[derive(Debug, Deserialize, PartialEq)]
pub(super) struct PlannedChange {
    pub(super) kind: String,
    entry: String,
    was: Option<Value>,
    becomes: Option<Value>,
}

/// How an entry or a field changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Created,
    Updated,
    Deleted,
}

impl Fate {
    fn of<T>(was: Option<&T>, becomes: Option<&T>) -> Self {
        match (was, becomes) {
            (None, _) => Self::Created,
            (Some(_), Some(_)) => Self::Updated,
            (Some(_), None) => Self::Deleted,
        }
    }

    fn sign(self, paint: Paint) -> String {
        match self {
            Self::Created => paint.colour("+", Mood::Good),
            Self::Updated => paint.colour("~", Mood::Doubtful),
            Self::Deleted => paint.colour("-", Mood::Bad),
        }
    }
}

impl ChangePlan {
    /// The plan in a response.
    pub(crate) fn read(response: Value) -> Result<Self, Failure> {
        serde_json::from_value(response)
            .map_err(|error| Failure::usage(format!("the changes cannot be read: {error}")))
    }

    /// Whether entries are removed.
    pub(crate) fn is_removing(&self) -> bool {
        self.changes.iter().any(|change| change.fate() == Fate::Deleted)
    }

    /// Every change, and how many there are.
    pub(crate) fn render(&self, paint: Paint) -> String {
        if self.changes.is_empty() {
            return format!("nothing to change (revision {})\n", self.revision);
        }
        let changes = self.lines(paint);
        let [created, updated, deleted] = self.counts();
        format!("{changes}\n{created} to create, {updated} to update, {deleted} to delete\n")
    }

    /// Every change.
    pub(super) fn lines(&self, paint: Paint) -> String {
        self.changes.iter().map(|change| change.render(paint)).collect()
    }

    /// Whether it makes the same changes. Bans come and go all the time, and those that go with a rule are
    /// not compared.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_written = |change: &&PlannedChange| change.kind != "ban";
        self.changes.iter().filter(is_written).eq(other.changes.iter().filter(is_written))
    }

    /// What was done.
    pub(super) fn done(&self) -> String {
        format!("revision {}: {}\n", self.revision, self.summary())
    }

    /// How many entries changed.
    pub(super) fn summary(&self) -> String {
        let [created, updated, deleted] = self.counts();
        format!("{created} created, {updated} updated, {deleted} deleted")
    }

    fn counts(&self) -> [String; 3] {
        [Fate::Created, Fate::Updated, Fate::Deleted].map(|fate| {
            let such = self.changes.iter().filter(|change| change.fate() == fate);
            grouped(such.count() as u64)
        })
    }
}

impl PlannedChange {
    fn fate(&self) -> Fate {
        Fate::of(self.was.as_ref(), self.becomes.as_ref())
    }

    /// The entry in a line, and a line for each changed field. Fields of removed entries are left out.
    fn render(&self, paint: Paint) -> String {
        let fate = self.fate();
        let mut lines = format!("{} {} {}\n", fate.sign(paint), printable(&self.kind), self.name());
        if fate == Fate::Deleted {
            return lines;
        }
        let (was, becomes) = (fields(self.was.as_ref()), fields(self.becomes.as_ref()));
        let names: BTreeSet<&String> = was.keys().chain(becomes.keys()).collect();
        for name in names {
            let (was, becomes) = (was.get(name), becomes.get(name));
            if was == becomes {
                continue;
            }
            let old = was.map(|was| paint.colour(was, Mood::Bad));
            let new = becomes.map(|becomes| paint.colour(becomes, Mood::Good));
            let values: Vec<String> = old.into_iter().chain(new).collect();
            let sign = Fate::of(was, becomes).sign(paint);
            lines += &format!("    {sign} {}: {}\n", printable(name), values.join(" -> "));
        }
        lines
    }

    /// Its name for people. The names of clients are lists of identifiers.
    fn name(&self) -> String {
        let parts: Result<Vec<String>, _> = serde_json::from_str(&self.entry);
        printable(&parts.map_or_else(|_| self.entry.clone(), |parts| parts.join(" ")))
    }
}

/// The fields of an entry, those of objects within it by their paths.
fn fields(entry: Option<&Value>) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    if let Some(entry) = entry {
        collect("", entry, &mut fields);
    }
    fields
}

fn collect(path: &str, value: &Value, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&path, member, fields);
            }
        }
        Value::String(text) => {
            fields.insert(path.to_owned(), printable(text));
        }
        other => {
            fields.insert(path.to_owned(), printable(&other.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(changes: &str, expected: &str) {
        let plan = format!("{{\"revision\":7,\"changes\":[{changes}]}}");
        let plan: ChangePlan = serde_json::from_str(&plan).expect("a plan");
        assert_eq!(plan.render(Paint::NONE), expected);
    }

    #[test]
    fn a_plan_shows_every_changed_field() {
        check("", "nothing to change (revision 7)\n");
        check(
            r#"{"kind":"rule","entry":"a","action":"create","becomes":{"rule_id":"a","limit":5}},
               {"kind":"rule","entry":"b","action":"update",
                "was":{"limit":5,"window":"1m","applies_to":{"methods":["GET"],"hosts":["h"]}},
                "becomes":{"limit":6,"window":"1m","applies_to":{"methods":["GET","PUT"]},"burst":9}},
               {"kind":"override","entry":"[\"a\",\"user_id\",\"eve\\u001b\"]","action":"delete","was":{"limit":5}}"#,
            "\
+ rule a
    + limit: 5
    + rule_id: a
~ rule b
    - applies_to.hosts: [\"h\"]
    ~ applies_to.methods: [\"GET\"] -> [\"GET\",\"PUT\"]
    + burst: 9
    ~ limit: 5 -> 6
- override a user_id eve\u{fffd}

1 to create, 1 to update, 1 to delete
",
        );
    }

    #[test]
    fn signs_and_values_have_colours() {
        let plan = r#"{"revision":1,"changes":[{"kind":"rule","entry":"b","was":{"limit":5},"becomes":{"limit":6}}]}"#;
        let plan: ChangePlan = serde_json::from_str(plan).expect("a plan");
        let seen = plan.render(Paint::ALWAYS);
        let line = "\u{1b}[1;33m~\u{1b}[0m limit: \u{1b}[1;31m5\u{1b}[0m -> \u{1b}[1;32m6\u{1b}[0m";
        assert!(seen.contains(line), "{seen:?}");
    }
}
