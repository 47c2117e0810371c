//! Bans in a catalog: nodes learn of them and forget them entry by entry, and what has ended is swept.

use crate::place::{Place, everywhere};
use serde_json::json;
use tollgate_catalog::{
    AuditFilter, Author, BanEntry, Catalog, ChangesSince, Edit, Entry, Expect, Filter, Intent,
    Kind, Seed, View, ban_name,
};
use tollgate_core::{Micros, Timestamp};
use tollgate_rules::{Admission, Attribute, Attributes, Source, format_time};

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const RULES: &str = "
rules:
- {rule_id: login, limit: 5, window: 1m, identifier_type: ip, penalty: {after: 3, within_seconds: 60, ban_seconds: 600}}
- {rule_id: shop, limit: 5, window: 1m, identifier_type: [user_id, tenant], tenant: acme,
   penalty: {after: 3, within_seconds: 60, ban_seconds: 600}}
- {rule_id: key, limit: 5, window: 1m, identifier_type: api_key, penalty: {after: 3, within_seconds: 60, ban_seconds: 600}}
";

fn later(seconds: u64) -> Timestamp {
    NOW.plus(Micros::from_secs(seconds))
}

fn penalty() -> Author {
    Author::program("penalty")
}

fn ban(rule_id: &str, identifier: &[&str], seconds: u64) -> BanEntry {
    BanEntry {
        rule_id: rule_id.to_owned(),
        identifier: identifier.iter().map(|value| (*value).to_owned()).collect(),
        tenant: (rule_id == "shop").then(|| "acme".to_owned()),
        expires_at: format_time(later(seconds)),
        lifted: None,
    }
}

fn put(ban: BanEntry) -> Edit {
    Edit::Put { entry: Entry::Ban(ban), expect: Expect::Anything }
}

fn remove(rule_id: &str, identifier: &[&str]) -> Edit {
    let identifier: Vec<String> = identifier.iter().map(|value| (*value).to_owned()).collect();
    let name = ban_name(rule_id, &identifier);
    Edit::Remove { kind: Kind::Ban, name, expect: Expect::Present }
}

async fn open(place: &Place) -> Catalog {
    let catalog = place.catalog();
    let beginning = Seed { document: Source::parse(RULES).document };
    assert!(catalog.open(beginning, NOW, true).await.expect("a catalog"));
    catalog
}

async fn write(catalog: &Catalog, edits: Vec<Edit>) -> usize {
    let written = catalog.write(&penalty(), Intent::Edits(edits), NOW, false).await;
    written.unwrap_or_else(|error| panic!("{error}")).changes.len()
}

struct Request(&'static [(&'static str, &'static str)]);

impl Attributes for Request {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let name = match attribute {
            Attribute::Ip => "ip",
            Attribute::UserId => "user_id",
            Attribute::Tenant => "tenant",
            Attribute::ApiKey => "api_key",
            _ => return None,
        };
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

const ADDRESS: Request = Request(&[("ip", "10.0.0.1")]);
const SHOPPER: Request = Request(&[("user_id", "u1"), ("tenant", "acme")]);
const KEY: Request = Request(&[("api_key", "k1")]);

/// Which of the three are banned, so many seconds later.
fn banned(view: &View, seconds: u64) -> [bool; 3] {
    [ADDRESS, SHOPPER, KEY].map(|request| {
        let hasher = std::hash::RandomState::new();
        let plan = view.policy().plan(&[&request], later(seconds), &hasher);
        matches!(plan.admission, Admission::Banned { .. })
    })
}

/// The view after the new changes; it equals a view that is read anew.
async fn follow(catalog: &Catalog, view: &View) -> View {
    let next = match catalog.since(view.version()).await.expect("an answer") {
        ChangesSince::Nothing => view.clone(),
        ChangesSince::Changes(update) => view.apply(&update).expect("a valid view"),
        other => panic!("{other:?}"),
    };
    let whole = catalog.view().await.expect("a view");
    for seconds in [0, 10, 20, 600] {
        assert_eq!(banned(&next, seconds), banned(&whole, seconds), "{seconds}");
    }
    let sizes = |view: &View| view.policy().directory().bans();
    assert_eq!(sizes(&next), sizes(&whole));
    next
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_follow_bans_without_compiling_anything() {
    everywhere(async |place| {
        let catalog = open(place).await;
        let first = catalog.view().await.expect("a view");
        assert_eq!(banned(&first, 0), [false; 3]);
        let key = digest("k1");
        let bans = vec![
            put(ban("login", &["10.0.0.1"], 10)),
            put(ban("shop", &["u1", "acme"], 20)),
            put(ban("key", &[&key], 20)),
            put(ban("gone", &["u9"], 20)),
        ];
        assert_eq!(write(&catalog, bans).await, 4);
        let made = follow(&catalog, &first).await;
        assert!(made.policy().shares_rules_with(first.policy()), "rules are not compiled again");
        assert_eq!(banned(&made, 0), [true; 3]);
        assert_eq!(banned(&made, 10), [false, true, true]);
        assert_eq!(banned(&made, 20), [false; 3]);
        // One that is written again is there once, and lasts as long as the last one says.
        assert_eq!(write(&catalog, vec![put(ban("login", &["10.0.0.1"], 20))]).await, 1);
        let renewed = follow(&catalog, &made).await;
        assert_eq!(banned(&renewed, 10), [true; 3]);
        assert_eq!(renewed.policy().directory().bans(), 4);
        let lifted = vec![remove("login", &["10.0.0.1"]), remove("shop", &["u1", "acme"])];
        assert_eq!(write(&catalog, lifted).await, 2);
        let lifted = follow(&catalog, &renewed).await;
        assert_eq!(banned(&lifted, 0), [false, false, true]);
        assert!(lifted.policy().shares_rules_with(first.policy()), "rules are not compiled again");
    })
    .await;
}

/// How many bans a catalog has.
async fn count(catalog: &Catalog) -> usize {
    let page = catalog.page(Kind::Ban, &Filter::default(), None, 1_000).await.expect("a page");
    page.entries.len()
}

/// A change of the rule `login`, as JSON fields.
fn patch(fields: serde_json::Value) -> Edit {
    let (kind, name) = (Kind::Rule, "login".to_owned());
    Edit::Patch { kind, name, fields, expect: Expect::Present }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_rule_removes_its_bans() {
    everywhere(async |place| {
        let removed =
            || Edit::Remove { kind: Kind::Rule, name: "login".to_owned(), expect: Expect::Present };
        let cases = [
            (removed(), true),
            (patch(json!({"penalty": null})), true),
            (patch(json!({"identifier_type": "user_id"})), true),
            (patch(json!({"limit": 7})), false),
            (patch(json!({"penalty": {"ban_seconds": 5}})), false),
        ];
        let place = if place.is_shared() { Place::database } else { Place::file };
        for (edit, is_lifted) in cases {
            let (place, case) = (place(), format!("{edit:?}"));
            let catalog = open(&place).await;
            let first = catalog.view().await.expect("a view");
            let bans = vec![put(ban("login", &["10.0.0.1"], 600)), put(ban("key", &["k"], 600))];
            write(&catalog, bans).await;
            let banned = follow(&catalog, &first).await;
            // A copy that learns of the bans and of their end at once.
            let copy = Place::file();
            let copied = copy.catalog();
            copied.migrate(NOW).await.expect("tables");
            copied.copy_from(&catalog).await.expect("a copy");
            let more = vec![put(ban("login", &["10.0.0.2"], 600))];
            write(&catalog, more).await;
            let changed = write(&catalog, vec![edit]).await;
            assert_eq!(changed, if is_lifted { 2 } else { 1 }, "{case}");
            let left = if is_lifted { 1 } else { 3 };
            assert_eq!(count(&catalog).await, left, "{case}");
            let after = follow(&catalog, &banned).await;
            assert_eq!(after.policy().directory().bans(), left, "{case}: other nodes follow");
            let ChangesSince::Changes(update) =
                catalog.since(banned.version()).await.expect("changes")
            else {
                panic!("{case}: not told one by one");
            };
            copied.follow(&update).await.expect("followed");
            assert_eq!(count(&copied).await, left, "{case}: copies follow");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_bans_by_a_rule_are_lifted_at_once() {
    everywhere(async |place| {
        let catalog = open(place).await;
        let of = |at: u64| put(ban("login", &[&format!("10.0.{}.{}", at / 256, at % 256)], 600));
        write(&catalog, (0..150).map(of).collect()).await;
        write(&catalog, vec![put(ban("shop", &["u1", "acme"], 600))]).await;
        let view = catalog.view().await.expect("a view");
        let lift = |rule_id: &str| Edit::LiftBans { rule_id: rule_id.to_owned() };
        let tenant = Author { tenant: Some("acme".to_owned()), ..penalty() };
        let lift_as = async |author: &Author, rule_id: &str| {
            let intent = Intent::Edits(vec![lift(rule_id)]);
            catalog.write(author, intent, NOW, false).await.map(|written| written.changes.len())
        };
        assert!(lift_as(&tenant, "login").await.is_err(), "bans of others are not a tenant's");
        assert!(lift_as(&tenant, "shop").await.is_err(), "nor those of a rule that operators wrote");
        let own = r#"{"rule_id":"acme.own","limit":1,"window":"1m","identifier_type":"ip","tenant":"acme"}"#;
        let own = Entry::parse(Kind::Rule, own).expect("a rule");
        let own = Intent::Edits(vec![Edit::Put { entry: own, expect: Expect::Absent }]);
        catalog.write(&tenant, own, NOW, false).await.expect("a rule of the tenant");
        write(&catalog, vec![put(ban("acme.own", &["10.0.0.1"], 600))]).await;
        assert_eq!(count(&catalog).await, 152);
        assert_eq!(lift_as(&tenant, "acme.own").await.expect("lifted"), 1);
        assert_eq!(lift_as(&penalty(), "shop").await.expect("lifted"), 1);
        assert_eq!(lift_as(&penalty(), "login").await.expect("lifted"), 1);
        assert_eq!(lift_as(&penalty(), "login").await.expect("nothing to do"), 0);
        // A ban that is written afterwards counts.
        write(&catalog, vec![put(ban("login", &["10.0.0.1"], 600))]).await;
        let view = follow(&catalog, &view).await;
        assert_eq!((banned(&view, 0), count(&catalog).await), ([true, false, false], 1));
        let filter = AuditFilter { kind: Some(Kind::Ban.into()), ..AuditFilter::default() };
        let log = catalog.audit(&filter, None, 3).await.expect("a log");
        assert!(format!("{log:?}").contains("150"), "the log tells how many: {log:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_ban_that_cannot_be_kept_does_not_stop_the_others() {
    everywhere(async |place| {
        let catalog = open(place).await;
        let long = "\"".repeat(1_000);
        let bans = [
            ban("login", &["10.0.0.1"], 600),
            ban("login", &[&long], 600),
            ban("gone", &["10.0.0.3"], 600),
            ban("shop", &["u1", "acme"], 600),
        ];
        let skipped = catalog.keep_bans(&bans, NOW).await.expect("written");
        let places: Vec<usize> = skipped.iter().map(|(at, _)| *at).collect();
        assert_eq!(places, [1], "{skipped:?}");
        assert_eq!(count(&catalog).await, 2, "bans by a rule that is gone are dropped");
        // The database itself refuses invalid rows.
        let mut raw = place.raw().await;
        if place.is_shared() {
            let check = "ALTER TABLE tollgate_bans ADD CHECK (identifier NOT LIKE '%10.0.0.66%')";
            raw.run(check).await;
        } else {
            raw.run(
                "CREATE TRIGGER refused BEFORE INSERT ON tollgate_bans \
                 WHEN NEW.identifier LIKE '%10.0.0.66%' \
                 BEGIN INSERT INTO tollgate_bans (entry) VALUES (NULL); END",
            )
            .await;
        }
        let bans: Vec<BanEntry> =
            (65..68).map(|at| ban("login", &[&format!("10.0.0.{at}")], 600)).collect();
        let skipped = catalog.keep_bans(&bans, NOW).await.expect("written");
        let places: Vec<usize> = skipped.iter().map(|(at, _)| *at).collect();
        assert_eq!((places, count(&catalog).await), (vec![1], 4), "{skipped:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bans_that_earlier_versions_left_behind_are_lifted() {
    everywhere(async |place| {
        let catalog = open(place).await;
        write(&catalog, vec![put(ban("login", &["10.0.0.1"], 600))]).await;
        let bans = (0..5).map(|at| put(ban("gone", &[&format!("10.0.0.{at}")], 600))).collect();
        write(&catalog, bans).await;
        assert_eq!(catalog.lift_orphaned_bans(NOW).await.expect("lifted"), 1);
        assert_eq!(catalog.lift_orphaned_bans(NOW).await.expect("nothing to do"), 0);
        assert_eq!(count(&catalog).await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_swept_in_small_steps() {
    everywhere(async |place| {
        let catalog = open(place).await;
        let ended = |at: u64| put(ban("login", &[&format!("10.0.{}.{}", at / 256, at % 256)], 10));
        assert_eq!(write(&catalog, (0..450).map(ended).collect()).await, 450);
        write(&catalog, vec![put(ban("login", &["10.9.9.9"], 11))]).await;
        let view = catalog.view().await.expect("a view");
        assert_eq!(catalog.sweep_bans(later(9)).await.expect("nothing to do"), 0);
        assert_eq!(
            catalog.version().await.expect("a version"),
            view.version(),
            "nothing was written"
        );
        let mut steps = Vec::new();
        while let step @ 1.. = catalog.sweep_bans(later(10)).await.expect("a step") {
            steps.push(step);
        }
        assert_eq!(steps, [200, 200, 50]);
        let view = follow(&catalog, &view).await;
        assert_eq!(view.policy().directory().bans(), 1, "nodes forget them too");
        let page = catalog.page(Kind::Ban, &Filter::default(), None, 1_000).await.expect("a page");
        assert_eq!(page.entries.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_nodes_sweep_at_once() {
    everywhere(async |place| {
        let catalog = open(place).await;
        let ended = |at: u64| put(ban("login", &[&format!("10.0.0.{at}")], 10));
        write(&catalog, (0..100).map(ended).collect()).await;
        let nodes: Vec<Catalog> = (0..4).map(|_| place.catalog()).collect();
        let mut swept = 0;
        while swept < 100 {
            let (a, b, c, d) = tokio::join!(
                nodes[0].sweep_bans(later(10)),
                nodes[1].sweep_bans(later(10)),
                nodes[2].sweep_bans(later(10)),
                nodes[3].sweep_bans(later(10)),
            );
            swept += [a, b, c, d].map(|step| step.expect("a step")).iter().sum::<usize>();
        }
        assert_eq!(swept, 100, "each is removed once");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_find_bans_and_who_made_them() {
    everywhere(async |place| {
        let catalog = open(place).await;
        let bans =
            vec![put(ban("login", &["10.0.0.1"], 10)), put(ban("shop", &["u1", "acme"], 20))];
        write(&catalog, bans).await;
        let names = async |filter: Filter| {
            let page = catalog.page(Kind::Ban, &filter, None, 10).await.expect("a page");
            page.entries.into_iter().map(|stored| stored.name).collect::<Vec<_>>()
        };
        let of = |text: &str| Some(text.to_owned());
        let (login, shop) = ("[\"login\",\"10.0.0.1\"]", "[\"shop\",\"u1\",\"acme\"]");
        assert_eq!(names(Filter::default()).await, [login, shop]);
        assert_eq!(names(Filter { rule_id: of("login"), ..Filter::default() }).await, [login]);
        assert_eq!(names(Filter { tenant: of("acme"), ..Filter::default() }).await, [shop]);
        let filter = AuditFilter { kind: Some(Kind::Ban.into()), ..AuditFilter::default() };
        let log = catalog.audit(&filter, None, 10).await.expect("a log");
        let actors: Vec<&str> = log.iter().map(|record| record.actor.as_str()).collect();
        assert_eq!(actors, ["penalty", "penalty"]);
        // Administrators of a tenant lift bans of rules that they wrote, and no others.
        let author = Author { tenant: of("acme"), ..penalty() };
        let rule = r#"{"rule_id":"acme.own","limit":1,"window":"1m","identifier_type":"ip","tenant":"acme"}"#;
        let entry = Entry::parse(Kind::Rule, rule).expect("a rule");
        let own = vec![Edit::Put { entry, expect: Expect::Absent }];
        catalog.write(&author, Intent::Edits(own), NOW, false).await.expect("written");
        write(&catalog, vec![put(ban("acme.own", &["10.0.0.1"], 10))]).await;
        for (edit, is_theirs) in [
            (remove("login", &["10.0.0.1"]), false),
            (remove("shop", &["u1", "acme"]), false),
            (remove("acme.own", &["10.0.0.1"]), true),
        ] {
            let written = catalog.write(&author, Intent::Edits(vec![edit]), NOW, false).await;
            assert_eq!(written.is_ok(), is_theirs, "{written:?}");
        }
    })
    .await;
}

fn digest(secret: &str) -> String {
    format!("sha256:{}", tollgate_catalog::digest_of(secret))
}
