//! What the last form did, across the redirect after it. The address has a word and a number, never a text: a link cannot
//! make the dashboard say something. The name of a rule beside it leads to the page of that rule, and is not shown.

use tollgate_dashboard::model::{Notice, Severity};
use tollgate_dashboard::path;

/// The word after a rule was deleted.
pub(super) const DELETED: &str = "deleted";
/// Where the number is in a sentence.
const NUMBER: &str = "{n}";

/// The words, and the sentences that stand for them. `{n}` is the number beside the word.
const NOTICES: &[(&str, &str)] = &[
    ("saved", "Saved as revision {n}."),
    ("unchanged", "Nothing was different, so nothing was changed."),
    (DELETED, "Deleted. The rule applies to no request any more."),
    ("enforced", "The rule is enforced from now on."),
    ("shadowed", "The rule counts and reports from now on, and refuses nothing."),
    ("disabled", "The rule is off from now on."),
    ("promoted", "The candidate is in force as revision {n}."),
    ("restored", "Restored, as revision {n}."),
    ("rolled-back", "The policy is as it was before, as revision {n}."),
    ("reset", "Counters were reset: {n}."),
    ("refunded", "Counters that got the charge back: {n}."),
    ("tier-set", "The client is in its new tier."),
    ("tier-removed", "The client was taken out of its tier."),
    ("override-set", "The exception holds from now on."),
    ("override-removed", "The exception was removed."),
    ("denied", "The client is on the deny list from now on: every request of it is refused."),
    ("listed", "The client is on the list from now on."),
    ("unlisted", "The client was taken off the list."),
    ("lifted", "The ban was lifted."),
    ("revoked", "The token was revoked. Calls with it are refused from now on."),
    ("key-removed", "The API key was removed. It identifies no client any more."),
];

/// The notice that a word and a number stand for; `None` for any other word.
pub(super) fn of(word: &str, number: Option<&str>, rule_id: Option<&str>) -> Option<Notice> {
    let (_, sentence) = NOTICES.iter().find(|(known, _)| *known == word)?;
    let number = number.and_then(|text| text.parse::<u64>().ok());
    let text = match number {
        Some(number) => sentence.replace(NUMBER, &number.to_string()),
        None => sentence.replace(" as revision {n}", "").replace(": {n}", ""),
    };
    let link = rule_id
        .filter(|_| word == DELETED)
        .map(|rule_id| ("What it was, and the way back".to_owned(), path::rule(rule_id)));
    Some(Notice { severity: Severity::Info, text, link })
}

/// An address with a notice.
pub(super) fn with(path: &str, word: &str, number: Option<u64>) -> String {
    let mark = if path.contains('?') { '&' } else { '?' };
    let number = number.map(|number| format!("&of={number}")).unwrap_or_default();
    format!("{path}{mark}notice={word}{number}")
}

/// The address after a rule was deleted: the list of rules, with a link to what it was.
pub(super) fn after_deletion(rule_id: &str) -> String {
    path::with_query(path::RULES, &[("notice", DELETED), ("rule", rule_id)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_cannot_choose_the_words() {
        let text = |word, number| of(word, number, None).map(|notice| notice.text);
        assert_eq!(text("saved", Some("43")).as_deref(), Some("Saved as revision 43."));
        assert_eq!(text("saved", Some("<b>")).as_deref(), Some("Saved."));
        assert_eq!(text("reset", None).as_deref(), Some("Counters were reset."));
        assert_eq!(
            text("unchanged", Some("5")).as_deref(),
            Some("Nothing was different, so nothing was changed.")
        );
        assert_eq!(text("call this number", None), None);
        let link = |word| of(word, None, Some("//evil.example/\"")).and_then(|notice| notice.link);
        let deleted = link(DELETED).map(|(_, address)| address);
        assert_eq!(deleted.as_deref(), Some("/ui/rules/%2F%2Fevil.example%2F%22"));
        assert_eq!(link("saved"), None);
        assert_eq!(with("/rules/a", "saved", Some(5)), "/rules/a?notice=saved&of=5");
        assert_eq!(with("/lists?list=bans", "lifted", None), "/lists?list=bans&notice=lifted");
    }
}
