//! The page that explains a request: every rule, whether it applies, why not, its key and its figures.

use tollgate_e2e::server::{Server, Setup};

use crate::browser::{Browser, put_rule};

const TRY: &str = "/ui/try?user_id=ann&endpoint=%2Flogin&method=POST";

/// The steps of the tree that name a rule: the class and the text of each.
fn step<'p>(page: &'p str, rule_id: &str) -> (&'p str, &'p str) {
    let (_, tree) = page.split_once("<ol class=\"tree\">").expect("a tree");
    let address = format!("href=\"/ui/rules/{rule_id}\"");
    let steps = tree.split("<li class=\"").skip(1);
    let mut found = steps.filter(|step| step.contains(&address));
    let step = found.next().expect("a step");
    assert!(found.next().is_none(), "{rule_id} stands once");
    step.split_once('"').expect("a class")
}

#[test]
fn the_tree_says_which_rule_binds_and_why_others_do_not_apply() {
    let server = Server::start(&Setup::default());
    for rule in [
        r#"{"rule_id":"old_login","limit":5,"window":"300d","identifier_type":"user_id","applies_to":{"endpoints":["/login"]}}"#,
        r#"{"rule_id":"login","limit":2,"window":"300d","identifier_type":"user_id","applies_to":{"endpoints":["/login"]},"replaces":["old_login"]}"#,
        r#"{"rule_id":"per_user","limit":100,"window":"300d","identifier_type":"user_id"}"#,
        r#"{"rule_id":"uploads","limit":7,"window":"300d","identifier_type":"user_id","applies_to":{"endpoints":["/uploads"]}}"#,
    ] {
        put_rule(&server, rule);
    }
    let mut browser = Browser::admin(&server);
    let body = r#"{"identifiers":{"user_id":"ann"},"endpoint":"/login","method":"POST"}"#;
    // What least is left of binds before the limit is reached, too.
    for used in 0..3 {
        let page = browser.get(TRY).text();
        let used = used.min(2);
        assert_eq!(page.matches("<span class=\"tag\">binds</span>").count(), 1, "{page}");
        let (class, login) = step(&page, "login");
        let is_refused = used == 2;
        assert_eq!(class, if is_refused { "step binds" } else { "step yes" }, "{login}");
        assert!(login.contains("<span class=\"tag\">binds</span>"), "{login}");
        assert!(
            login.contains("key ") && login.contains("<span class=\"id\">ann</span>"),
            "{login}"
        );
        assert!(login.contains(&format!("{used} of 2 used")), "{login}");
        assert_eq!(login.contains("exceeded"), is_refused, "{login}");
        let (class, per_user) = step(&page, "per_user");
        assert_eq!(class, "step yes");
        assert!(per_user.contains(&format!("{used} of 100 used")), "{per_user}");
        let (class, old) = step(&page, "old_login");
        assert_eq!(class, "step off");
        assert!(old.contains("replaced by login") && !old.contains("used"), "{old}");
        let (class, uploads) = step(&page, "uploads");
        assert_eq!(class, "step off");
        assert!(uploads.contains("the path is <code>/login</code>"), "{uploads}");
        assert!(!uploads.contains("used") && !uploads.contains("binds"), "{uploads}");
        let would = if is_refused { "would be refused" } else { "would pass" };
        assert!(page.contains(would) && page.contains("nothing was charged"), "{page}");
        server.check(body);
    }
}
