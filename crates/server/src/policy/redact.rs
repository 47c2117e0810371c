//! Problems of a policy for the log: entries that name clients may contain API keys, so their text is
//! redacted.

use tollgate::rules::Problem;

/// The lists whose entries name clients.
const CLIENT_LISTS: [&str; 4] = ["clients", "overrides", "whitelist", "blacklist"];

/// The fields of such an entry that do not identify the client.
const HARMLESS_FIELDS: [&str; 8] = [
    "tier",
    "rule_id",
    "limit",
    "window_seconds",
    "burst",
    "multiplier",
    "starts_at",
    "expires_at",
];

/// Renders a problem, with its line of `text` unless that line may name a client.
pub(crate) fn render(problem: &Problem, file_name: &str, text: &str) -> String {
    if let Some((entry, field)) = client_entry(&problem.path) {
        return if HARMLESS_FIELDS.contains(&field) {
            problem.render_without_line(file_name)
        } else {
            withheld(problem, entry, file_name).render_without_line(file_name)
        };
    }
    // A text that cannot be parsed has no fields, so the position can be anywhere.
    if problem.path.is_empty() || names_client(problem, text) {
        problem.render_without_line(file_name)
    } else {
        problem.render(file_name, text)
    }
}

/// The entry of a list of clients that a path leads to, and the field in it.
fn client_entry(path: &str) -> Option<(&str, &str)> {
    let list = path.split(['[', '.']).next()?;
    if !CLIENT_LISTS.contains(&list) {
        return None;
    }
    let end = path.find(']').map_or(list.len(), |bracket| bracket + 1);
    let (entry, field) = path.split_at(end);
    Some((entry, field.trim_start_matches('.')))
}

/// The problem without any text of the entry.
fn withheld(problem: &Problem, entry: &str, file_name: &str) -> Problem {
    let message =
        "this cannot be used; the reason is not shown here, since it may contain an API key";
    let advice = format!("run tollgate rules lint {file_name}");
    let told = Problem::new(entry, message).with_advice(advice);
    Problem { severity: problem.severity, position: problem.position, ..told }
}

/// Whether the line of a problem also names a client, as in a document of one long line.
fn names_client(problem: &Problem, text: &str) -> bool {
    let Some(position) = problem.position else { return false };
    // Lines end as in YAML: LF, CR LF or CR.
    let text = text.replace("\r\n", "\n");
    let line = text.split(['\n', '\r']).zip(1..).find(|(_, number)| *number == position.line);
    line.is_some_and(|(line, _)| {
        line.split("identifier").skip(1).any(|rest| !rest.starts_with("_type"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Policy;
    use tollgate::rules::Source;

    const RULE: &str = "rules: [{rule_id: api, limit: 1, window: 1s, identifier_type: api_key}]";

    fn report(text: &str) -> String {
        let problems = Policy::compile(&Source::parse(text)).expect_err(text);
        problems.iter().map(|problem| render(problem, "policy.yaml", text)).collect()
    }

    #[test]
    fn api_keys_are_not_repeated() {
        let check = |lists: &str, expected: &str| {
            for text in [format!("{RULE}\n{lists}"), format!("{lists}\n{RULE}")] {
                let report = report(&text);
                assert!(!report.contains("sk_live") && !report.contains("4111"), "{report}");
                assert!(report.contains(expected), "{text}: {report}");
                assert!(report.contains("--> policy.yaml:"), "{report}");
            }
        };
        let key = "identifier_type: api_key, identifier: sk_live_1";
        check(&format!("whitelist: [{{{key}, expires_at: soon}}]"), "whitelist[0].expires_at: ");
        check(&format!("clients: [{{{key}, tier: 5}}]"), "clients[0].tier: ");
        check(&format!("overrides: [{{{key}, rule_id: nope, limit: 2}}]"), "no rule `nope`");
        check(&format!("overrides: [{{{key}, rule_id: api, limit: -2}}]"), "out of range");
        check(&format!("blacklist: [{{{key}}}, {{{key}}}]"), "blacklist[1]: this cannot be used");
        check(&format!("blacklist: [{{{key}, note: 5}}]"), "blacklist[0]: this cannot be used");
        for lists in [
            "whitelist: [sk_live_1]",
            "whitelist: [sk_live_1: true]",
            "whitelist: [{identifier_type: api_key, identifier: 4111}]",
            "whitelist: [{identifier_type: sk_live_1, identifier: api_key}]",
            "whitelist: [{identifier_type: ip, identifier: sk_live_1}]",
            "whitelist:\n- identifier_type: [ip, api_key]\n  identifier:\n  - 1\n  - 4111",
        ] {
            check(lists, "error: whitelist[0]: this cannot be used");
            check(lists, "= help: run tollgate rules lint policy.yaml");
        }
        check("whitelist: sk_live_1", "error: whitelist: this cannot be used");
        check("whitelits: [{identifier: sk_live_1}]", "did you mean");
        check("whitelist: [{identifier: sk_live_1", "this is not YAML");
        let beside = RULE.replace("limit: 1", "limit: -1").replace("rules", "{rules");
        let text = format!("{beside}, whitelist: [{{{key}}}]}}");
        let report = report(&text);
        assert!(report.contains("limit: -1 is out") && !report.contains("sk_live"), "{report}");
    }

    #[test]
    fn rules_are_shown_with_their_line() {
        let report = report(&RULE.replace("limit: 1", "limit: -1"));
        assert!(report.contains("1 | rules: [{rule_id: api, limit: -1,"), "{report}");
    }
}
