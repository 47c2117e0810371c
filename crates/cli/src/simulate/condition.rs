//! `--fail-if`: conditions on the figures of a simulation, so that a build can fail.
//!
//! A condition is a figure, a comparison, and a number or a share: `refused > 1%`.

use std::cmp::Ordering;
use std::fmt;

use tollgate::Policy;
use tollgate_document::{closest, quote};
use tollgate_simulate::{MAX_FRACTION, Tally, millionths};

use crate::failure::Failure;
use crate::terminal::{count, printable, share};

/// Numbers are compared in millionths.
const SCALE: u128 = 1_000_000;

const FIGURES: &str =
    "refused, throttled, clients_refused, unmatched, refused(RULE) or clients_refused(RULE)";

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Refused,
    Throttled,
    ClientsRefused,
    Unmatched,
}

impl Figure {
    const NAMED: [(&'static str, Self); 4] = [
        ("refused", Self::Refused),
        ("throttled", Self::Throttled),
        ("clients_refused", Self::ClientsRefused),
        ("unmatched", Self::Unmatched),
    ];

    /// Whether there is such a figure for one rule.
    fn has_rules(self) -> bool {
        matches!(self, Self::Refused | Self::ClientsRefused)
    }
}

/// How it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Greater,
    AtLeast,
    Less,
    AtMost,
}

impl Comparison {
    /// Longer ones first.
    const NAMED: [(&'static str, Self); 4] =
        [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::Greater), ("<", Self::Less)];

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Greater => order == Ordering::Greater,
            Self::AtLeast => order != Ordering::Less,
            Self::Less => order == Ordering::Less,
            Self::AtMost => order != Ordering::Greater,
        }
    }
}

/// A condition on the figures of a simulation.
#[derive(Debug)]
pub(super) struct Condition {
    text: String,
    figure: Figure,
    /// The index of a rule, if the figure is that of one.
    rule: Option<usize>,
    comparison: Comparison,
    /// The number in millionths; of a share, in millionths of a per cent.
    number: u128,
    is_share: bool,
}

impl Condition {
    /// All conditions, for rules of that policy.
    pub(super) fn parse_all(texts: &[String], policy: &Policy) -> Result<Vec<Self>, Failure> {
        let ids: Vec<&str> = policy.rules().iter().map(|rule| &*rule.id).collect();
        let parse = |text: &String| {
            Self::parse(text, &ids).map_err(|wrong| {
                let marked = format!("{}^", " ".repeat(wrong.at));
                Failure::usage(format!(
                    "--fail-if: {}\n\n  {}\n  {marked} column {}\n\n{}",
                    wrong.message,
                    printable(text),
                    wrong.at + 1,
                    wrong.advice
                ))
            })
        };
        texts.iter().map(parse).collect()
    }

    fn parse(text: &str, rules: &[&str]) -> Result<Self, WrongCondition> {
        let mut reader = Reader { text, at: 0 };
        let (name, at) = reader.word();
        let named = Figure::NAMED.iter().find(|(known, _)| *known == name);
        let Some((_, figure)) = named.copied() else {
            let names = Figure::NAMED.iter().map(|(name, _)| *name);
            let advice = match closest(name, names) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("write {FIGURES}"),
            };
            return Err(reader.expected("a figure", at, advice));
        };
        let rule = reader.rule(figure, rules)?;
        let at = reader.skip_spaces();
        let rest = reader.rest();
        let named = Comparison::NAMED.iter().find(|(sign, _)| rest.starts_with(sign));
        let Some((sign, comparison)) = named.copied() else {
            let advice = "write >, >=, < or <=, as in refused > 1%".to_owned();
            return Err(reader.expected("a comparison", at, advice));
        };
        reader.at += sign.len();
        let (number, at) = reader.number();
        let Some(number) = millionths(number) else {
            let advice = format!(
                "write a number with at most {MAX_FRACTION} fraction digits, as in 100 or 0.5%"
            );
            return Err(reader.expected("a number", at, advice));
        };
        reader.skip_spaces();
        let is_share = reader.rest().starts_with('%');
        reader.at += usize::from(is_share);
        let end = reader.skip_spaces();
        if !reader.rest().is_empty() {
            let advice = "write each condition after its own --fail-if".to_owned();
            return Err(reader.expected("the end", end, advice));
        }
        Ok(Self { text: text.to_owned(), figure, rule, comparison, number, is_share })
    }

    /// Whether the condition holds.
    pub(super) fn judge(&self, tally: &Tally<'_>) -> Judged {
        if let Some(rule) = self.rule.and_then(|rule| tally.rules.get(rule))
            && rule.applied == 0
        {
            return Judged::NotMeasured(format!(
                "{} cannot be judged: {} applied to none of {}; does the traffic have what the rule counts by and \
                 matches?",
                printable(&self.text),
                rule.rule_id,
                count(tally.requests, "request")
            ));
        }
        let Measured { part, whole, what } = self.measure(tally);
        let order = if self.is_share {
            // part / whole compared with number / 100, without rounding. Of nothing, the share is zero.
            let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
            (part * 100 * SCALE).cmp(&self.number.saturating_mul(whole))
        } else {
            (u128::from(part) * SCALE).cmp(&self.number)
        };
        if self.comparison.holds(order) {
            let text = printable(&self.text);
            Judged::Holds(format!("{text} holds: {what}, {}", share(part, whole)))
        } else {
            Judged::DoesNotHold
        }
    }

    fn measure(&self, tally: &Tally<'_>) -> Measured {
        let of_requests = |part: u64, what: &str| Measured {
            part,
            whole: tally.requests,
            what: format!("{} of {} {what}", part, count(tally.requests, "request")),
        };
        let clients = tally.clients.len() as u64;
        let of_clients = |part: u64, what: &str| Measured {
            part,
            whole: clients,
            what: format!("{} of {} {what}", part, count(clients, "client")),
        };
        match (self.figure, self.rule.and_then(|rule| tally.rules.get(rule))) {
            (Figure::ClientsRefused, Some(rule)) => {
                let part = rule.clients_exceeding.len() as u64;
                of_clients(part, &format!("exceeded {}", rule.rule_id))
            }
            (_, Some(rule)) => Measured {
                part: rule.exceeded,
                whole: rule.applied,
                what: format!(
                    "{} of {} exceeded {}",
                    rule.exceeded,
                    count(rule.applied, "request"),
                    rule.rule_id
                ),
            },
            (Figure::Refused, None) => of_requests(tally.refused, "refused"),
            (Figure::Throttled, None) => of_requests(tally.delayed, "throttled"),
            (Figure::Unmatched, None) => of_requests(tally.unlimited, "met no rule"),
            (Figure::ClientsRefused, None) => of_clients(tally.clients_refused(), "refused"),
        }
    }
}

/// What a simulation says about a condition.
#[derive(Debug)]
pub(super) enum Judged {
    /// It holds: a sentence with the figure.
    Holds(String),
    DoesNotHold,
    /// Its rule applied to no request: a sentence that says so. A build must not pass by that.
    NotMeasured(String),
}

/// A figure of a simulation.
struct Measured {
    part: u64,
    whole: u64,
    what: String,
}

/// What is wrong with a condition, where, and what would be right.
#[derive(Debug, PartialEq, Eq)]
struct WrongCondition {
    /// Characters before it.
    at: usize,
    message: String,
    advice: String,
}

impl fmt::Display for WrongCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at column {}; {}", self.message, self.at + 1, self.advice)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips spaces, and returns where the next word begins.
    fn skip_spaces(&mut self) -> usize {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.at
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> (&'a str, usize) {
        let start = self.skip_spaces();
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        (taken, start)
    }

    fn word(&mut self) -> (&'a str, usize) {
        self.take(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    fn number(&mut self) -> (&'a str, usize) {
        self.take(|c| c.is_ascii_digit() || c == '.')
    }

    /// The rule in parentheses, if there is one.
    fn rule(&mut self, figure: Figure, rules: &[&str]) -> Result<Option<usize>, WrongCondition> {
        let opening = self.skip_spaces();
        if !self.rest().starts_with('(') {
            return Ok(None);
        }
        if !figure.has_rules() {
            let advice = "only refused and clients_refused can be those of a rule".to_owned();
            return Err(self.expected("a comparison", opening, advice));
        }
        self.at += 1;
        let (id, at) = self.take(|c| !c.is_whitespace() && !matches!(c, ')' | '<' | '>'));
        let Some(rule) = rules.iter().position(|known| *known == id) else {
            let advice = match closest(id, rules.iter().copied()) {
                Some(id) => format!("did you mean {id}?"),
                None => {
                    let few: Vec<&str> = rules.iter().take(10).copied().collect();
                    format!("the rules are {}", few.join(", "))
                }
            };
            return Err(self.expected("a rule of the policy", at, advice));
        };
        let closing = self.skip_spaces();
        if !self.rest().starts_with(')') {
            return Err(self.expected(")", closing, "close the parenthesis".to_owned()));
        }
        self.at += 1;
        Ok(Some(rule))
    }

    fn expected(&self, what: &str, at: usize, advice: String) -> WrongCondition {
        let rest = &self.text[at..];
        let found = match rest.split_whitespace().next() {
            Some(word) => quote(word),
            None => "nothing".to_owned(),
        };
        let at = self.text[..at].chars().count();
        WrongCondition { at, message: format!("expected {what}, found {found}"), advice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [&str; 2] = ["login", "per_client"];

    #[test]
    fn conditions_are_read() {
        let check = |text: &str, expected: (Figure, Option<usize>, Comparison, u128, bool)| {
            let it = Condition::parse(text, &RULES).unwrap_or_else(|wrong| panic!("{wrong}"));
            assert_eq!((it.figure, it.rule, it.comparison, it.number, it.is_share), expected);
        };
        check("refused > 1%", (Figure::Refused, None, Comparison::Greater, 1_000_000, true));
        check("refused>=0.5 %", (Figure::Refused, None, Comparison::AtLeast, 500_000, true));
        check(" throttled < 10 ", (Figure::Throttled, None, Comparison::Less, 10_000_000, false));
        check("unmatched <= 0", (Figure::Unmatched, None, Comparison::AtMost, 0, false));
        let clients = (Figure::ClientsRefused, Some(0), Comparison::Greater, 3_000_000, false);
        check("clients_refused ( login ) > 3", clients);
        let rule = (Figure::Refused, Some(1), Comparison::Greater, 1, true);
        check("refused(per_client) > 0.000001%", rule);
    }

    #[test]
    fn a_wrong_condition_is_shown_with_its_place() {
        let check = |text: &str, at: usize, message: &str, advice: &str| {
            let wrong = Condition::parse(text, &RULES).expect_err(text);
            assert_eq!((wrong.at, wrong.message.as_str()), (at, message), "{text}");
            assert!(wrong.advice.contains(advice), "{text}: {}", wrong.advice);
        };
        check("", 0, "expected a figure, found nothing", "write refused");
        check("refusd > 1%", 0, "expected a figure, found \"refusd\"", "did you mean refused?");
        check("refused = 1%", 8, "expected a comparison, found \"=\"", "write >, >=, < or <=");
        check("refused > many", 10, "expected a number, found \"many\"", "0.5%");
        check("refused > 1.2.3", 10, "expected a number, found \"1.2.3\"", "fraction digits");
        check("refused > 0.0000001%", 10, "expected a number, found \"0.0000001%\"", "at most 6");
        check("refused > 1% and", 13, "expected the end, found \"and\"", "its own --fail-if");
        check("refused(logn) > 1", 8, "expected a rule of the policy, found \"logn)\"", "login");
        check(
            "refused(zzz) > 1",
            8,
            "expected a rule of the policy, found \"zzz)\"",
            "the rules are",
        );
        check("refused(login > 1", 14, "expected ), found \">\"", "close");
        check(
            "throttled(login) > 1",
            9,
            "expected a comparison, found \"(login)\"",
            "only refused",
        );
        check("größe > 1", 0, "expected a figure, found \"größe\"", "write refused");
        check("refused > \u{1b}[31m", 10, "expected a number, found \"\\u{1b}[31m\"", "100");
    }
}
