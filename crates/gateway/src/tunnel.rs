//! Upgraded connections: copies bytes both ways, until both sides have ended.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::config::{GatewayConfig, share_of};
use crate::counts::GatewayCounts;
use crate::failure::ForwardError;
use crate::idle_timeout::LastMove;
use crate::share::{ClientShare, ClientShares};

/// The timeout of the upgrade, after both sides have agreed.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// All upgraded connections of a gateway. Clones share them.
#[derive(Clone, Debug)]
pub struct Tunnels {
    places: Arc<Semaphore>,
    shares: Arc<ClientShares>,
    all: u32,
    idle: Duration,
    cut: Arc<watch::Sender<bool>>,
    counts: Arc<GatewayCounts>,
}

/// The permit of one connection.
#[derive(Debug)]
pub(crate) struct TunnelPermit {
    _permit: OwnedSemaphorePermit,
    _share: ClientShare,
}

impl Tunnels {
    pub(crate) fn new(config: &GatewayConfig, counts: Arc<GatewayCounts>) -> Self {
        let (all, idle) = (config.upgrades, config.timeouts.upgrade);
        let shares = ClientShares::new(config.upgrades_per_client.unwrap_or(share_of(all)));
        let all = u32::try_from(all.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let places = Arc::new(Semaphore::new(all as usize));
        Self { places, shares, all, idle, cut: Arc::new(watch::Sender::new(false)), counts }
    }

    /// A permit for an upgraded connection of a client.
    pub(crate) fn take(&self, client: IpAddr) -> Result<TunnelPermit, ForwardError> {
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let permit = permit.map_err(|_| ForwardError::TooManyUpgrades)?;
        let share = self.shares.try_take(client).ok_or(ForwardError::TooManyClientUpgrades)?;
        Ok(TunnelPermit { _permit: permit, _share: share })
    }

    /// Copies bytes both ways in a background task.
    pub(crate) fn open(&self, client: OnUpgrade, upstream: OnUpgrade, place: TunnelPermit) {
        let (idle, mut cut, open) = (self.idle, self.cut.subscribe(), self.counts.open_upgrade());
        tokio::spawn(async move {
            tokio::select! {
                ended = run(client, upstream, idle) => match ended {
                    Ok(()) => {}
                    Err(error) => debug!(%error, "upgraded connection ended"),
                },
                // An error means that the sender is gone, so the tunnel is never cut.
                _ = cut.wait_for(|is_cut| *is_cut) => {}
            }
            drop((open, place));
        });
    }

    /// Waits at most `grace` until all have ended; then closes the others, and returns how many those were.
    pub async fn end(&self, grace: Duration) -> usize {
        let all = Arc::clone(&self.places).acquire_many_owned(self.all);
        if timeout(grace, all).await.is_ok() {
            return 0;
        }
        let left = self.counts.read().upgrades;
        self.cut.send_replace(true);
        usize::try_from(left).unwrap_or(usize::MAX)
    }
}

async fn run(client: OnUpgrade, upstream: OnUpgrade, idle: Duration) -> io::Result<()> {
    let both = timeout(UPGRADE_TIMEOUT, async { tokio::try_join!(client, upstream) }).await;
    let (client, upstream) =
        both.map_err(|_| io::ErrorKind::TimedOut)?.map_err(io::Error::other)?;
    let moved = Arc::new(LastMove::now());
    let mut client = TunnelEnd { stream: TokioIo::new(client), moved: Arc::clone(&moved) };
    let mut upstream = TokioIo::new(upstream);
    tokio::select! {
        copied = copy_bidirectional(&mut client, &mut upstream) => copied.map(drop),
        () = quiet(&moved, idle) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Waits until nothing has moved for `idle`.
async fn quiet(moved: &LastMove, idle: Duration) {
    while let Some(left) = moved.left_of(idle) {
        sleep(left).await;
    }
}

/// One end of a tunnel, which records when bytes move.
struct TunnelEnd {
    stream: TokioIo<Upgraded>,
    moved: Arc<LastMove>,
}

impl AsyncRead for TunnelEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.moved.renew();
        }
        read
    }
}

impl AsyncWrite for TunnelEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(1..)) = written {
            self.moved.renew();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
