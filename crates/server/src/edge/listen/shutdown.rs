//! How everything that runs is told to end.

use tokio::sync::watch;

/// Asks everything that waits for its [`Shutdown`] to end. Dropping it asks as well.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

impl ShutdownTrigger {
    /// Asks.
    pub fn request(&self) {
        self.0.send_replace(true);
    }
}

/// Tells when it is time to end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// A shutdown that has not been asked for yet, and what asks for it.
    #[must_use]
    pub fn new() -> (ShutdownTrigger, Self) {
        let (sender, receiver) = watch::channel(false);
        (ShutdownTrigger(sender), Self(receiver))
    }

    /// Waits until it is asked for; returns at once if it has been.
    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        // An error means that nobody is left who could ask.
        let _ = receiver.wait_for(|is_requested| *is_requested).await;
    }
}
