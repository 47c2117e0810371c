//! Renders `/metrics` away from the threads that check requests, one page at a time, so that many
//! scrapes do not delay checks.
//!
//! Callers that arrive during a render share the next one: the figures of a page are never older than
//! the request for it.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::{JoinError, spawn_blocking};

use super::MetricsFormat;

/// A page that is rendered once, for all callers that wait for it.
type RenderedPage = OnceCell<Bytes>;

/// The pages that callers wait for.
#[derive(Debug)]
pub(crate) struct Pages {
    turn: Arc<Semaphore>,
    next_text: Mutex<Option<Arc<RenderedPage>>>,
    next_open_metrics: Mutex<Option<Arc<RenderedPage>>>,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            next_text: Mutex::default(),
            next_open_metrics: Mutex::default(),
        }
    }
}

impl Pages {
    /// A page whose render began after this call.
    pub(crate) async fn get(
        &self,
        format: MetricsFormat,
        render: impl FnOnce() -> String + Send + 'static,
    ) -> Result<Bytes, JoinError> {
        let next = match format {
            MetricsFormat::Text => &self.next_text,
            MetricsFormat::OpenMetrics => &self.next_open_metrics,
        };
        let page = Arc::clone(next.lock().get_or_insert_with(Arc::default));
        // If the caller that renders disconnects, another one takes over.
        let rendered = page.get_or_try_init(|| async {
            // The semaphore is never closed.
            let turn = Arc::clone(&self.turn).acquire_owned().await.ok();
            // Callers that arrive from here on need newer figures.
            next.lock().take_if(|next| Arc::ptr_eq(next, &page));
            spawn_blocking(move || {
                let text = render();
                drop(turn);
                Bytes::from(text)
            })
            .await
        });
        rendered.await.cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    /// Pages with the number of their render. The first render waits until the test lets it end.
    struct Scene {
        pages: Arc<Pages>,
        renders: Arc<AtomicUsize>,
        may_end: mpsc::Sender<()>,
        first: JoinHandle<String>,
    }

    impl Scene {
        /// The first page is being rendered.
        async fn start() -> Self {
            let (pages, renders) = (Arc::<Pages>::default(), Arc::<AtomicUsize>::default());
            let (may_end, ends) = mpsc::channel::<()>();
            let (begins, has_begun) = tokio::sync::oneshot::channel();
            let first = tokio::spawn({
                let (pages, renders) = (Arc::clone(&pages), Arc::clone(&renders));
                async move {
                    let render = move || {
                        let _ = begins.send(());
                        let _ = ends.recv();
                        renders.fetch_add(1, Ordering::SeqCst).to_string()
                    };
                    text(pages.get(MetricsFormat::Text, render).await)
                }
            });
            has_begun.await.expect("it renders");
            Self { pages, renders, may_end, first }
        }

        fn get(&self, format: MetricsFormat) -> JoinHandle<String> {
            let (pages, renders) = (Arc::clone(&self.pages), Arc::clone(&self.renders));
            let render = move || renders.fetch_add(1, Ordering::SeqCst).to_string();
            tokio::spawn(async move { text(pages.get(format, render).await) })
        }
    }

    fn text(page: Result<Bytes, JoinError>) -> String {
        String::from_utf8(page.expect("a page").to_vec()).expect("UTF-8")
    }

    /// On one thread: if pages were rendered there, this would never end.
    #[tokio::test]
    async fn many_scrapes_do_not_occupy_the_threads_that_check() {
        let scene = Scene::start().await;
        let others: Vec<_> = (0..100).map(|_| scene.get(MetricsFormat::Text)).collect();
        let other_format = scene.get(MetricsFormat::OpenMetrics);
        for _ in 0..300 {
            yield_now().await;
        }
        assert_eq!(scene.renders.load(Ordering::SeqCst), 0, "one at a time");
        scene.may_end.send(()).expect("it renders");
        assert_eq!(scene.first.await.expect("no panic"), "0");
        for other in others {
            assert_eq!(
                other.await.expect("no panic"),
                "1",
                "they share one render, which is newer"
            );
        }
        assert_eq!(other_format.await.expect("no panic"), "2");
        assert_eq!(scene.renders.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_caller_that_disconnects_does_not_keep_others_from_their_page() {
        let scene = Scene::start().await;
        let [leaves, stays] = [(); 2].map(|()| scene.get(MetricsFormat::Text));
        for _ in 0..10 {
            yield_now().await;
        }
        leaves.abort();
        scene.first.abort();
        assert!(leaves.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(scene.renders.load(Ordering::SeqCst), 0, "the first render goes on");
        scene.may_end.send(()).expect("it renders");
        assert_eq!(stays.await.expect("no panic"), "1");
    }
}
