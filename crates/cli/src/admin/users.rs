//! `tollgate users`: the limits of one user and what is left of them, its tier, its exceptions from rules.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::client_name::with_query;
use super::entries::{WriteMethod, given, remove, write};
use super::exception::{self, ExceptionArguments};
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::{Remote, segment};
use crate::remote::of_this_node;
use crate::table::{Column, table};
use crate::terminal::{grouped, lasting, printable, quota};

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// Show which limits apply to a user, and what is left of them. Charges nothing.
    Show(ShowUserArguments),
    /// Put a user into a tier.
    SetTier(SetTierArguments),
    /// Take a user out of its tier.
    ClearTier(ClearTierArguments),
    /// Make an exception from a rule for a user, or change it.
    SetOverride(SetUserOverrideArguments),
    /// Remove an exception from a rule.
    ClearOverride(ClearOverrideArguments),
}

/// A user, and the server that knows it.
#[derive(Args, Debug)]
pub(super) struct UserArguments {
    /// The user.
    #[arg(value_name = "USER")]
    pub(super) user: String,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Arguments of `tollgate users show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate users show alice
  tollgate users show alice --endpoint /search --method GET

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ShowUserArguments {
    #[command(flatten)]
    pub(super) user: UserArguments,

    /// The limits for this path.
    #[arg(long, value_name = "PATH")]
    pub(super) endpoint: Option<String>,

    /// The limits for this method.
    #[arg(long)]
    pub(super) method: Option<String>,

    /// The limits within this tenant.
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<String>,
}

/// Arguments of `tollgate users set-tier`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate users set-tier alice --tier pro

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct SetTierArguments {
    #[command(flatten)]
    pub(super) user: UserArguments,

    /// The tier.
    #[arg(long, value_name = "TIER")]
    pub(super) tier: String,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Arguments of `tollgate users clear-tier`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or the user was put into no tier, 2 if there is no answer.")]
pub(crate) struct ClearTierArguments {
    #[command(flatten)]
    pub(super) user: UserArguments,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Arguments of `tollgate users set-override`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate users set-override alice --rule search --multiplier 2 --expires-in 7d
  tollgate users set-override alice --rule search --limit 5000 --window 1h

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct SetUserOverrideArguments {
    #[command(flatten)]
    pub(super) user: UserArguments,

    #[command(flatten)]
    pub(super) exception: ExceptionArguments,
}

/// Arguments of `tollgate users clear-override`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or there is no such exception, 2 if there is no answer.")]
pub(crate) struct ClearOverrideArguments {
    #[command(flatten)]
    pub(super) user: UserArguments,

    /// The rule it is an exception from.
    #[arg(long, value_name = "RULE_ID")]
    pub(super) rule: String,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// The limits of a user.
#[derive(Deserialize)]
struct UserLimits {
    user_id: String,
    tier: Option<TierRow>,
    listed: Option<ListedRow>,
    banned: Option<BanRow>,
    degraded: Option<String>,
    limits: Vec<UserLimitRow>,
}

#[derive(Deserialize)]
struct TierRow {
    name: String,
    from: String,
}

#[derive(Deserialize)]
struct ListedRow {
    list: String,
    reason: Option<String>,
    expires_at: Option<String>,
}

#[derive(Deserialize)]
struct BanRow {
    rule_id: String,
    reason: String,
    until: String,
}

#[derive(Deserialize)]
struct UserLimitRow {
    rule_id: String,
    limit: u64,
    remaining: u64,
    reset_at: String,
    window_seconds: f64,
    algorithm: String,
    from: String,
    #[serde(default)]
    log_only: bool,
}

pub(crate) fn run(command: &UsersCommand) -> Result<ExitCode, Failure> {
    match command {
        UsersCommand::Show(arguments) => show(arguments),
        UsersCommand::SetTier(SetTierArguments { user, tier, dry_run }) => {
            let body = json!({ "tier": tier });
            let done = format!("{} is in the tier {}", printable(&user.user), printable(tier));
            write(WriteMethod::Put, &user.path("tier"), &body, *dry_run, &done, &user.server)
        }
        UsersCommand::ClearTier(ClearTierArguments { user, dry_run }) => {
            let done = format!("{} is out of its tier", printable(&user.user));
            remove(&user.path("tier"), Vec::new(), *dry_run, &done, &user.server)
        }
        UsersCommand::SetOverride(arguments) => set_override(arguments),
        UsersCommand::ClearOverride(ClearOverrideArguments { user, rule, dry_run }) => {
            let done = exception::removed(&printable(&user.user), rule);
            let parameters = vec![("rule_id", rule.clone())];
            remove(&user.path("override"), parameters, *dry_run, &done, &user.server)
        }
    }
}

impl UserArguments {
    /// The path of something about the user.
    fn path(&self, what: &str) -> String {
        format!("/api/v1/users/{}/{what}", segment(&self.user))
    }
}

fn set_override(arguments: &SetUserOverrideArguments) -> Result<ExitCode, Failure> {
    let SetUserOverrideArguments { user, exception } = arguments;
    let (body, done) = exception.document(json!({}), &printable(&user.user));
    let path = user.path("override");
    write(WriteMethod::Post, &path, &body, exception.dry_run, &done, &user.server)
}

fn show(arguments: &ShowUserArguments) -> Result<ExitCode, Failure> {
    let ShowUserArguments { user, endpoint, method, tenant } = arguments;
    let parameters = given([
        ("endpoint", endpoint.as_ref()),
        ("method", method.as_ref()),
        ("tenant", tenant.as_ref()),
    ]);
    let path = with_query(&user.path("limits"), &parameters);
    let response = Remote::new(&user.server)?.get::<UserLimits>(&path)?;
    print(&if user.server.json { response.text } else { response.value.render() })?;
    Ok(ExitCode::SUCCESS)
}

impl UserLimits {
    fn render(&self) -> String {
        let mut lines = vec![format!("user {}", self.user_id)];
        lines.push(match &self.tier {
            Some(TierRow { name, from }) if from == "default" => format!("tier {name}, by default"),
            Some(TierRow { name, .. }) => format!("tier {name}"),
            None => "no tier".to_owned(),
        });
        if let Some(ListedRow { list, reason, expires_at }) = &self.listed {
            let reason = reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let until = expires_at.as_ref().map(|end| format!(" until {end}")).unwrap_or_default();
            lines.push(format!("on the {list}{until}{reason}"));
        }
        if let Some(BanRow { rule_id, reason, until }) = &self.banned {
            lines.push(format!("banned by {rule_id} until {until}: {reason}"));
        }
        let mut lines: String = lines.iter().map(|line| printable(line) + "\n").collect();
        lines += &of_this_node(self.degraded.as_deref());
        if self.limits.is_empty() {
            return lines + "no limit applies\n";
        }
        let columns = [
            Column::Text("rule"),
            Column::Figure("left"),
            Column::Text("limit"),
            Column::Text("algorithm"),
            Column::Text("resets"),
            Column::Text("from"),
        ];
        let rows: Vec<[String; 6]> = self.limits.iter().map(UserLimitRow::cells).collect();
        format!("{lines}\n{}", table(columns, &rows))
    }
}

impl UserLimitRow {
    fn cells(&self) -> [String; 6] {
        let Self { limit, remaining, window_seconds, log_only, .. } = self;
        let from = if *log_only { format!("{}, log_only", self.from) } else { self.from.clone() };
        [
            self.rule_id.clone(),
            grouped(*remaining),
            quota(*limit, &lasting(*window_seconds), *limit),
            self.algorithm.clone(),
            self.reset_at.clone(),
            from,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_shown_with_all_that_applies() {
        let check = |answer: &str, expected: &str| {
            let limits: UserLimits = serde_json::from_str(answer).expect("an answer");
            assert_eq!(limits.render(), expected);
        };
        check(
            r#"{"user_id":"eve\u001b\n","tier":{"name":"free","from":"default"},
                "listed":{"list":"blacklist","reason":"scraping","expires_at":null},
                "banned":{"rule_id":"login","reason":"refused once","until":"2030-01-01T00:00:00Z"},"degraded":"deadline",
                "limits":[{"rule_id":"api","limit":1000,"remaining":7,"reset_at":"2030-01-01T00:00:00Z",
                           "full_at":"","window_seconds":3600,"algorithm":"gcra","from":"override","log_only":true}]}"#,
            "user eve\u{fffd}\u{fffd}
tier free, by default
on the blacklist: scraping
banned by login until 2030-01-01T00:00:00Z: refused once
without the shared store (deadline): what is left is counted by this node alone; beyond it, up to fallback_factor times the limit passes on each node

 rule  left  limit        algorithm  resets                from
 api      7  1,000 / 1 h  gcra       2030-01-01T00:00:00Z  override, log_only
",
        );
        check(
            r#"{"user_id":"ann","tier":null,"listed":null,"limits":[]}"#,
            "user ann\nno tier\nno limit applies\n",
        );
    }
}
