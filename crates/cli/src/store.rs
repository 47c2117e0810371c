//! `tollgate store show`: the counters in a record of Redis, which are binary there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tollgate::rules::candidate_id;
use tollgate::store::{AnyStore, KeyContent, RemoteSettings, StoreUrl, StoredCounter};
use tollgate::{Policy, Timestamp};
use tollgate_catalog::{CatalogUrl, Filter, Kind};
use tollgate_core::{RuleTag, State, StateFigures};
use tollgate_server::limit_ids;
use tollgate_server::settings::Settings;

use crate::catalog::{block_on, is_missing, open, refused};
use crate::failure::Failure;
use crate::output::print;
use crate::policy_file::PolicyText;
use crate::settings::load;
use crate::table::{Column, table};
use crate::terminal::{count, grouped, moment, printable, span};

/// How long Redis has to respond.
const DEADLINE: Duration = Duration::from_secs(5);
/// What to do about counters whose rules are not known.
const UNNAMED: &str = "\nA tag stands for a rule that is not known here: name the rules with --rules or --catalog, and limits of files of \
                       envoyproxy/ratelimit with --envoy-config.\n";
/// How many rules are read from a catalog to tell whose counters these are.
const MAX_RULES: usize = 100_000;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Print the counters at a key of Redis.
    Show(ShowStoreArguments),
}

/// Arguments of `tollgate store show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redis-cli --scan --pattern 'tg:*' | head
  tollgate store show --store redis://10.0.0.1:6379 --rules policy.yaml tg:vZ3kE0q9b1A
  tollgate store show --config tollgate.yaml --json tg:vZ3kE0q9b1A
  tollgate store show --store redis://10.0.0.1:6379 --envoy-config ratelimit tg:vZ3kE0q9b1A

Store, rules, catalog and files of envoyproxy/ratelimit are those that `serve` would use. They tell whose counters these \
are; without them, only a number of each rule is shown. Counters in PostgreSQL are text: look at the table tollgate_counters. \
The exit code is 0 if there is a record, 1 if there is none, 2 if Redis cannot be asked.")]
pub(crate) struct ShowStoreArguments {
    /// The key.
    #[arg(value_name = "KEY")]
    key: String,

    /// Read settings from this file, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where counters are: the URL of Redis.
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// The policy file of the rules.
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,

    /// The catalog of the rules: sqlite:FILE or the URL of a PostgreSQL.
    #[arg(long, value_name = "URL", conflicts_with = "rules")]
    catalog: Option<String>,

    /// The directory with files of envoyproxy/ratelimit.
    #[arg(long, value_name = "DIRECTORY")]
    envoy_config: Option<String>,

    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// A record, as `--json` prints it.
#[derive(Serialize)]
struct ShownRecord {
    key: String,
    counters: Vec<ShownCounter>,
}

#[derive(Serialize)]
struct ShownCounter {
    /// The rule, or the limit of a file of envoyproxy/ratelimit; `null` if none in force has this tag.
    rule_id: Option<String>,
    /// The number of the rule in records.
    tag: String,
    algorithm: Option<&'static str>,
    /// `null` for windows and logs, which do not keep it.
    limit: Option<u64>,
    window_ms: Option<u64>,
    used: Option<u64>,
    previous: Option<u64>,
    held: u64,
    /// When it was charged last, in milliseconds since 1970.
    charged_at_ms: Option<u64>,
    kept_until_ms: u64,
    /// The whole state, as text.
    state: Option<String>,
}

/// Runs a command on a store.
pub(crate) fn run(command: &StoreCommand) -> Result<ExitCode, Failure> {
    match command {
        StoreCommand::Show(arguments) => show(arguments),
    }
}

fn show(arguments: &ShowStoreArguments) -> Result<ExitCode, Failure> {
    let flags = [
        ("store", &arguments.store),
        ("rules", &arguments.rules),
        ("catalog", &arguments.catalog),
        ("envoy_config", &arguments.envoy_config),
    ];
    let flags: Vec<(&'static str, String)> =
        flags.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
    let settings = load(arguments.config.clone(), &flags)?.settings;
    if !settings.store.is_redis() {
        return Err(Failure::usage(format!(
            "counters are in {}; only records in Redis have to be decoded: name one with --store",
            settings.store.to_string().trim_end_matches(':')
        )));
    }
    let key = &arguments.key;
    let (found, names) = block_on(async {
        let names = rule_names(&settings).await?;
        Ok((stored(&settings.store, key).await?, names))
    })?;
    let counters = match found {
        KeyContent::Counters(counters) => counters,
        other => {
            let (key, store) = (printable(key), &settings.store);
            let is_nothing = other == KeyContent::Nothing;
            return Err(Failure::refused(if is_nothing {
                format!("there is no record at the key {key} in {store}")
            } else {
                format!(
                    "the key {key} in {store} holds no counters: it is something else of the fleet, the log of a \
                     counter, or of another program"
                )
            }));
        }
    };
    let name = |counter: &StoredCounter| names.get(&counter.tag).cloned();
    if arguments.json {
        let counters = counters.iter().map(|it| ShownCounter::new(it, name(it))).collect();
        let record = ShownRecord { key: key.clone(), counters };
        print(&serde_json::to_string(&record).unwrap_or_default())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 7]> = counters.iter().map(|it| row(it, name(it))).collect();
    let columns = [
        Column::Text("rule"),
        Column::Text("algorithm"),
        Column::Text("limit"),
        Column::Figure("used"),
        Column::Figure("held"),
        Column::Text("charged"),
        Column::Text("kept until"),
    ];
    let found = count(counters.len() as u64, "counter");
    let is_unnamed = counters.iter().any(|it| name(it).is_none());
    let hint = if is_unnamed { UNNAMED } else { "" };
    print(&format!("{}: {found}\n\n{}{hint}", printable(key), table(columns, &rows)))?;
    Ok(ExitCode::SUCCESS)
}

async fn stored(url: &StoreUrl, key: &str) -> Result<KeyContent, Failure> {
    let settings = RemoteSettings { deadline: DEADLINE, ..RemoteSettings::default() };
    let unreachable = |why: String| Failure::usage(format!("cannot read {url}: {why}"));
    let store = AnyStore::open(url, 0, &settings).map_err(unreachable)?;
    if let AnyStore::Redis(store) = &store
        && !store.inner().found(DEADLINE).await
    {
        return Err(unreachable("no server responds there".to_owned()));
    }
    store.content_at(key).await.map_err(|error| unreachable(error.to_string()))
}

/// The ids of all rules, their candidates, and the limits of Envoy's files, by their tags.
async fn rule_names(settings: &Settings) -> Result<BTreeMap<RuleTag, String>, Failure> {
    let mut ids = rule_ids(settings).await?;
    if let Some(directory) = &settings.envoy_config {
        ids.extend(limit_ids(directory, settings.envoy.repeated_domain()).map_err(Failure::usage)?);
    }
    let candidates: Vec<String> = ids.iter().map(|id| candidate_id(id)).collect();
    // Rules come last: where a candidate that may not exist has the same tag, the rule is named.
    Ok(candidates.into_iter().chain(ids).map(|id| (RuleTag::of(&id), id)).collect())
}

async fn rule_ids(settings: &Settings) -> Result<Vec<String>, Failure> {
    if let Some(file) = &settings.rules {
        let text = PolicyText::read(&file.to_string_lossy())?;
        let policy = Policy::compile(&text.source).map_err(|problems| text.unusable(&problems))?;
        return Ok(policy.rules().iter().map(|rule| rule.written_id().to_string()).collect());
    }
    if !settings.uses_catalog() || is_missing(&settings.catalog) {
        return Ok(Vec::new());
    }
    catalog_rules(settings.catalog.clone()).await
}

async fn catalog_rules(url: CatalogUrl) -> Result<Vec<String>, Failure> {
    let catalog = open(url).await?;
    let page = catalog.page(Kind::Rule, &Filter::default(), None, MAX_RULES).await;
    catalog.close().await;
    let page = page.map_err(|error| refused(&error))?;
    Ok(page.entries.into_iter().map(|entry| entry.name).collect())
}

impl ShownCounter {
    fn new(counter: &StoredCounter, rule_id: Option<String>) -> Self {
        let figures = counter.state.as_ref().map(State::figures);
        Self {
            rule_id,
            tag: tag_text(counter.tag),
            algorithm: figures.map(|it| it.algorithm.name()),
            limit: figures.and_then(|it| it.limit),
            window_ms: figures.map(|it| it.window.get() / 1_000),
            used: figures.map(|it| it.used),
            previous: figures.and_then(|it| it.previous),
            held: counter.held,
            charged_at_ms: figures.map(|it| it.at.as_micros() / 1_000),
            kept_until_ms: counter.kept_until.as_micros() / 1_000,
            state: counter.state.as_ref().map(ToString::to_string),
        }
    }
}

fn tag_text(tag: RuleTag) -> String {
    format!("{:06x}", tag.number())
}

fn row(counter: &StoredCounter, rule_id: Option<String>) -> [String; 7] {
    let StoredCounter { tag, kept_until, state, held } = counter;
    let rule = rule_id.unwrap_or_else(|| format!("(tag {})", tag_text(*tag)));
    let held = if *held > 0 { grouped(*held) } else { String::new() };
    let (algorithm, limit, used, charged) = match state.as_ref().map(State::figures) {
        Some(figures) => described(&figures),
        None => ("-".to_owned(), "-".to_owned(), "-".to_owned(), "-".to_owned()),
    };
    [rule, algorithm, limit, used, held, charged, moment(*kept_until)]
}

/// Algorithm, limit, what was used, and when it was charged.
fn described(figures: &StateFigures) -> (String, String, String, String) {
    let StateFigures { algorithm, limit, window, used, previous, at } = figures;
    let window = span(window.get());
    let limit = limit.map_or_else(
        || format!("any / {window}"),
        |limit| format!("{} / {window}", grouped(limit)),
    );
    let before = previous.map_or_else(String::new, |it| format!(" after {}", grouped(it)));
    let charged = if *at == Timestamp::EPOCH { "-".to_owned() } else { moment(*at) };
    (algorithm.name().to_owned(), limit, format!("{}{before}", grouped(*used)), charged)
}
