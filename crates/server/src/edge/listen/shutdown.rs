//! The signal to shut down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::watch;

/// Requests the shutdown of everything that waits for its [`Shutdown`]. Dropping it requests it as well.
#[derive(Debug)]
pub struct ShutdownTrigger {
    sender: watch::Sender<bool>,
    is_announced: Arc<AtomicBool>,
}

impl ShutdownTrigger {
    /// Announces the shutdown: from now on clients of HTTP/1.1 are asked to close their connections.
    pub fn announce(&self) {
        self.is_announced.store(true, Relaxed);
    }

    /// Requests the shutdown.
    pub fn request(&self) {
        self.announce();
        self.sender.send_replace(true);
    }
}

/// Waits for the request to shut down. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown {
    receiver: watch::Receiver<bool>,
    is_announced: Arc<AtomicBool>,
}

impl Shutdown {
    /// A shutdown that is not requested yet, and its trigger.
    #[must_use]
    pub fn new() -> (ShutdownTrigger, Self) {
        let (sender, receiver) = watch::channel(false);
        let is_announced = Arc::new(AtomicBool::new(false));
        let trigger = ShutdownTrigger { sender, is_announced: Arc::clone(&is_announced) };
        (trigger, Self { receiver, is_announced })
    }

    /// Whether the shutdown was announced.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.is_announced.load(Relaxed)
    }

    /// Waits until the shutdown is requested; returns at once if it has been.
    pub async fn requested(&self) {
        let mut receiver = self.receiver.clone();
        // An error means that the trigger was dropped.
        let _ = receiver.wait_for(|is_requested| *is_requested).await;
    }
}
