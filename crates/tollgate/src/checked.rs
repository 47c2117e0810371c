//! The result of a call to a limiter: ready at once where the counters are in memory, a future otherwise.

use std::fmt;
use std::future::{self, Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tollgate_store::{MemoryStore, Store};

use crate::decision::Decision;
use crate::uncancelled::Uncancelled;

const NEVER_WAITS: &str = "counters in memory never wait";

/// The result of a check by a limiter with the store `S`.
pub type Checked<'a, S = MemoryStore> = Promise<'a, Decision, S>;

/// A value that is ready, or will be. Await it; with counters in memory, [`Promise::now`] returns it.
#[must_use = "nothing is charged before a pending check is awaited"]
pub enum Promise<'a, T, S = MemoryStore> {
    /// The value.
    Ready(T),
    /// A call to a store across the network is needed.
    Pending(Pending<'a, T, S>),
}

/// A value that is not ready yet.
pub struct Pending<'a, T, S> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    store: PhantomData<fn() -> S>,
}

impl<'a, T, S> Promise<'a, T, S> {
    /// A value that has to be awaited.
    pub fn pending(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Pending(Pending { future: Box::pin(future), store: PhantomData })
    }

    /// A pending value that is computed even if its caller stops waiting.
    pub(crate) fn uncancelled(future: impl Future<Output = T> + Send + 'static) -> Self
    where
        T: Send + 'static,
    {
        Self::Pending(Pending { future: Box::pin(Uncancelled::new(future)), store: PhantomData })
    }

    /// Runs a future that awaits nothing but calls to limiters with this store: with counters in memory it never
    /// waits, and is run at once.
    #[inline]
    pub fn run(store: &S, future: impl Future<Output = T> + Send + 'a) -> Self
    where
        S: Store,
    {
        if store.is_shared() {
            return Self::pending(future);
        }
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Self::Ready(value),
            Poll::Pending => unreachable!("{NEVER_WAITS}"),
        }
    }

    /// Applies a function to the value.
    #[inline]
    pub fn map<U>(self, make: impl FnOnce(T) -> U + Send + 'a) -> Promise<'a, U, S>
    where
        T: 'a,
    {
        match self {
            Self::Ready(value) => Promise::Ready(make(value)),
            Self::Pending(Pending { future, .. }) => {
                Promise::pending(async move { make(future.await) })
            }
        }
    }
}

impl<'a, T: 'a, S> Promise<'a, T, S> {
    /// The value on the heap, for futures that would have to hold it across an await.
    #[cfg(feature = "tower")]
    pub(crate) fn boxed(self) -> Promise<'a, Box<T>, S> {
        match self {
            Self::Ready(value) => Promise::Ready(Box::new(value)),
            Self::Pending(Pending { future, .. }) => {
                Promise::pending(async move { Box::new(future.await) })
            }
        }
    }
}

impl<T> Promise<'_, T> {
    /// The value: counters in memory never wait.
    #[inline]
    pub fn now(self) -> T {
        match self {
            Self::Ready(value) => value,
            Self::Pending(_) => unreachable!("{NEVER_WAITS}"),
        }
    }
}

impl<'a, T, S> IntoFuture for Promise<'a, T, S> {
    type Output = T;
    type IntoFuture = PromiseFuture<'a, T>;

    fn into_future(self) -> PromiseFuture<'a, T> {
        match self {
            Self::Ready(value) => PromiseFuture::Ready(future::ready(value)),
            Self::Pending(Pending { future, .. }) => PromiseFuture::Pending(future),
        }
    }
}

impl<'a, T, S> IntoFuture for Pending<'a, T, S> {
    type Output = T;
    type IntoFuture = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        self.future
    }
}

/// The future of a [`Promise`].
pub enum PromiseFuture<'a, T> {
    /// The value.
    Ready(future::Ready<T>),
    /// A call to a store across the network is needed.
    Pending(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<T> Future for PromiseFuture<'_, T>
where
    future::Ready<T>: Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.get_mut() {
            Self::Ready(ready) => Pin::new(ready).poll(context),
            Self::Pending(future) => future.as_mut().poll(context),
        }
    }
}

impl<T: fmt::Debug, S> fmt::Debug for Promise<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(value) => f.debug_tuple("Ready").field(value).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

impl<T, S> fmt::Debug for Pending<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl<T> fmt::Debug for PromiseFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PromiseFuture")
    }
}
