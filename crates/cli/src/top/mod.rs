//! `tollgate top`: who is refused, near a limit and busiest right now, as the dashboard shows it, in a terminal.

mod draw;
mod events;
mod figures;
mod keys;
mod layout;
mod once;
mod screen;
mod view;

use std::env;
use std::io::{IsTerminal as _, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use self::events::{PollOrder, ViewEvent, ViewEvents};
use self::figures::FigureReader;
use self::keys::KeyEffect;
use self::screen::Screen;
use self::view::TopView;
use crate::admin::RankedBy;
use crate::arguments::{ServerArguments, parse_time};
use crate::failure::Failure;
use crate::output::{Paint, print};
use crate::remote::client::Remote;
use crate::terminal::{printable, printable_json};

/// How many entries of each list are asked for: as many as a server sends, so that there is something to filter.
const VIEWED_ENTRIES: u64 = 100;
/// How many entries of each list are printed once.
const PRINTED_ENTRIES: u64 = 10;
/// How often a server may be asked: with each token, it is asked some hundred times a minute then.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
const MAX_INTERVAL: Duration = Duration::from_secs(3_600);
/// How often times on the screen are drawn anew.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of `tollgate top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate top
  tollgate top --by endpoint --window 300
  tollgate top --once --json | jq '.refused.top[0].name'

Keys: Tab or 1 to 4 choose a list, s sorts by another column, r reverses, / filters, b ranks clients, rules or \
endpoints, w looks further back, p pauses, ? shows all keys, q quits. Nothing is changed on the server.

A tenant-admin sees the requests of its tenant. Colours are left out if NO_COLOR is set.

The exit code is 0, 1 if the server refuses, 2 if there is no answer at the start, or no terminal and no --once.")]
pub(crate) struct TopViewArguments {
    /// What is ranked.
    #[arg(long, value_name = "WHAT", default_value = "client")]
    by: RankedBy,

    /// How far to look back, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=300))]
    window: u64,

    /// How many entries of each list at most [default: 100, or 10 with --once].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    limit: Option<u64>,

    /// How often the server is asked: 500ms, 2s, 1m.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_interval)]
    interval: Duration,

    /// Print everything once, as text or with --json, instead of a view that lasts.
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    server: ServerArguments,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_time(text)?;
    let is_possible = (MIN_INTERVAL..=MAX_INTERVAL).contains(&interval);
    is_possible.then_some(interval).ok_or_else(|| "write a time from 500ms to 1h".to_owned())
}

/// Shows the figures of a server until the user quits, or prints them once.
pub(crate) fn run(arguments: &TopViewArguments) -> Result<ExitCode, Failure> {
    let TopViewArguments { by, window, limit, interval, once, server } = arguments;
    let remote = Remote::new(server)?;
    if *once {
        let order = PollOrder { by: *by, window: *window, is_paused: false };
        let mut reader = FigureReader::new(remote, limit.unwrap_or(PRINTED_ENTRIES));
        let polled = reader.poll(&order)?;
        let figures = reader.figures(&polled)?;
        print(&if server.json {
            printable_json(&once::json(&polled, &figures))
        } else {
            once::text(&figures)
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if server.json {
        return Err(Failure::usage("--json needs --once: a view that lasts is for people"));
    }
    require_terminal()?;
    let mut reader = FigureReader::new(remote.keep_connections()?, limit.unwrap_or(VIEWED_ENTRIES));
    let mut view = TopView::new(&printable(&server.server), *by, *window);
    // Wrong addresses and tokens end the command, as everywhere. What happens later is shown.
    let polled = reader.poll(&view.order())?;
    view.take(Ok(reader.figures(&polled)?));
    watch(view, reader, *interval)
}

/// The view is drawn on a terminal, and gets its keys from it.
fn require_terminal() -> Result<(), Failure> {
    if !(stdin().is_terminal() && stdout().is_terminal()) {
        return Err(Failure::usage(
            "this is no terminal: run it in one, or print everything once with --once",
        ));
    }
    let kind = env::var_os("TERM").unwrap_or_default();
    if kind.is_empty() || kind == "dumb" {
        return Err(Failure::usage(
            "this terminal cannot move its cursor (TERM): print everything once with --once",
        ));
    }
    Ok(())
}

/// Draws the view whenever something happened, until the user or a signal ends it.
fn watch(mut view: TopView, reader: FigureReader, interval: Duration) -> Result<ExitCode, Failure> {
    // Before anything is drawn, so that no signal is missed.
    let events = ViewEvents::start(reader, view.order(), interval)?;
    let mut screen = Screen::enter()?;
    let paint = Paint::of_output();
    loop {
        screen.draw(|frame| draw::draw(frame, &mut view, paint))?;
        match events.next(REDRAW_INTERVAL) {
            Some(ViewEvent::Key(key)) => match view.press(key) {
                KeyEffect::Quit => return Ok(ExitCode::SUCCESS),
                KeyEffect::Ask => events.order(view.order()),
                KeyEffect::Redraw => {}
            },
            Some(ViewEvent::Polled(result)) => view.take(*result),
            Some(ViewEvent::Ended) => return Ok(ExitCode::SUCCESS),
            Some(ViewEvent::Failed(why)) => return Err(Failure::usage(why)),
            Some(ViewEvent::Resized) | None => {}
        }
    }
}
