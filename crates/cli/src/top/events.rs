//! What the view waits for, in one queue: keys, figures of the server, and signals. Each comes from its own thread,
//! which ends with the process.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind, read};
use tokio::signal::unix::{SignalKind, signal};

use super::figures::{FigureReader, LiveFigures};
use crate::admin::RankedBy;
use crate::failure::Failure;

/// How many events wait to be handled. Threads wait for a place, so that a key that is held down fills no memory.
const MAX_WAITING_EVENTS: usize = 64;

/// Something that happened.
pub(super) enum ViewEvent {
    Key(KeyEvent),
    /// The terminal has another size.
    Resized,
    /// New figures, or why there are none.
    Polled(Box<Result<LiveFigures, String>>),
    /// A signal ends the command.
    Ended,
    /// A thread ended: without keys or figures the view is of no use.
    Failed(String),
}

/// What the server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PollOrder {
    pub(super) by: RankedBy,
    /// In seconds.
    pub(super) window: u64,
    pub(super) is_paused: bool,
}

/// The queue of events, and the way to tell the server's thread what to ask for.
pub(super) struct ViewEvents {
    events: Receiver<ViewEvent>,
    orders: Sender<PollOrder>,
}

/// Says that a thread ended, in a panic too.
struct ThreadGuard {
    events: SyncSender<ViewEvent>,
    what: &'static str,
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        let _ = self.events.send(ViewEvent::Failed(format!("{} cannot be read", self.what)));
    }
}

impl ViewEvents {
    /// Starts to read keys, signals and figures.
    pub(super) fn start(
        reader: FigureReader,
        order: PollOrder,
        interval: Duration,
    ) -> Result<Self, Failure> {
        let (sender, events) = sync_channel(MAX_WAITING_EVENTS);
        let (orders, ordered) = channel();
        watch_signals(sender.clone())?;
        let guard = |what| ThreadGuard { events: sender.clone(), what };
        let (keyboard, server) = (guard("the keyboard"), guard("the server"));
        thread::spawn(move || read_keys(&keyboard));
        thread::spawn(move || poll(reader, order, interval, &ordered, &server));
        Ok(Self { events, orders })
    }

    /// The next event; `None` if there is none for that long.
    pub(super) fn next(&self, timeout: Duration) -> Option<ViewEvent> {
        self.events.recv_timeout(timeout).ok()
    }

    /// Asks the server for something else, at once.
    pub(super) fn order(&self, order: PollOrder) {
        // If its thread has ended, an event says so.
        let _ = self.orders.send(order);
    }
}

fn read_keys(guard: &ThreadGuard) {
    while let Ok(event) = read() {
        let event = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => ViewEvent::Key(key),
            Event::Resize(..) => ViewEvent::Resized,
            _ => continue,
        };
        if guard.events.send(event).is_err() {
            return;
        }
    }
}

/// Asks the server again and again. One that does not respond is asked as often as one that does.
fn poll(
    mut reader: FigureReader,
    mut order: PollOrder,
    interval: Duration,
    orders: &Receiver<PollOrder>,
    guard: &ThreadGuard,
) {
    // The first figures are there already.
    loop {
        match orders.recv_timeout(interval) {
            Ok(new) => order = new,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Of several orders the last one counts.
        while let Ok(new) = orders.try_recv() {
            order = new;
        }
        if order.is_paused {
            continue;
        }
        let polled = reader.poll(&order).and_then(|polled| reader.figures(&polled));
        let result = polled.map_err(Failure::into_message);
        if guard.events.send(ViewEvent::Polled(Box::new(result))).is_err() {
            return;
        }
    }
}

/// Ends the view when a signal would end the command, so that the terminal is restored.
fn watch_signals(events: SyncSender<ViewEvent>) -> Result<(), Failure> {
    let unusable = |error| Failure::usage(format!("cannot listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.map_err(unusable)?;
    let signals = {
        let _entered = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal)
    };
    let [interrupt, terminate, hangup] = signals;
    let (mut interrupt, mut terminate, mut hangup) =
        (interrupt.map_err(unusable)?, terminate.map_err(unusable)?, hangup.map_err(unusable)?);
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        let _ = events.send(ViewEvent::Ended);
    });
    Ok(())
}
