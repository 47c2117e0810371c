//! The signal to shut down.

use tokio::sync::watch;

/// Requests the shutdown of everything that waits for its [`Shutdown`]. Dropping it requests it as well.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

impl ShutdownTrigger {
    /// Requests the shutdown.
    pub fn request(&self) {
        self.0.send_replace(true);
    }
}

/// Waits for the request to shut down. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// A shutdown that is not requested yet, and its trigger.
    #[must_use]
    pub fn new() -> (ShutdownTrigger, Self) {
        let (sender, receiver) = watch::channel(false);
        (ShutdownTrigger(sender), Self(receiver))
    }

    /// Waits until the shutdown is requested; returns at once if it has been.
    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        // An error means that the trigger was dropped.
        let _ = receiver.wait_for(|is_requested| *is_requested).await;
    }
}
