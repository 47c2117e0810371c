//! The view models: what each page shows, as plain data. The server fills them; nothing here reads a clock, a store or
//! a request.
//!
//! Conventions: a [`Time`] is a moment in UTC; shares are from 0 to 1; rates are per second; latencies are milliseconds;
//! secrets are never in a model, except a token or key that was created a moment ago. Texts are as clients sent them:
//! the pages escape them and make control characters visible.

mod audit;
mod chrome;
mod clients;
mod deleted_rule;
mod error;
mod health;
mod keys;
mod lists;
mod live;
mod overview;
mod rule;
mod rules;
mod series;
mod shared;
mod sign_in;
mod simulate;
mod time;
mod try_request;

pub use audit::{Audit, AuditFilter, AuditRow, AuditTab};
pub use chrome::{Banner, Chrome, Notice, Range, RangeChoice, Rights, Severity, Tab, Viewer};
pub use clients::{
    Client, ClientBan, ClientKey, ClientLimit, ClientListing, ClientMenu, ClientMistake,
    ClientTier, Clients, FoundClient, RefusedRequest,
};
pub use deleted_rule::DeletedRule;
pub use error::ErrorPage;
pub use health::{
    CatalogHealth, ErrorCount, FallbackGroup, FallbackMode, FileHealth, Health, HealthFact, HotKey,
};
pub use keys::{ApiKeyRow, CreatedSecret, Keys, TokenRow};
pub use lists::{BanRow, ListRow, ListTab, Lists, OverrideRow};
pub use live::{Live, TailFilter, TopList};
pub use overview::{
    Breaker, FirstCheck, Memory, NodeRow, NodeState, NodeStore, Overview, StoreServer,
};
pub use rule::{
    CandidateEffect, DiffKind, DiffLine, EditConflict, EditMode, EditedRule, Effect, EffectClient,
    EffectPreview, Finding, FindingKind, RuleChoices, RuleForm, RuleRevision,
};
pub use rules::{CandidateFigures, RuleOrder, RuleRow, RuleState, Rules};
pub use series::{Figure, LatencySeries, PointNote, RequestSeries, RevisionMark};
pub use shared::{
    ClientRef, DecisionRow, Failure, FiguresOf, Identifier, Outcome, Paging, Quota, Section,
    TopClient,
};
pub use sign_in::SignIn;
pub use simulate::{
    AlgorithmRow, ShadowedClient, SimulateForm, SimulatedClient, SimulatedRule, Simulation,
    SimulationReport,
};
pub use time::Time;
pub use try_request::{
    CounterFigures, CounterState, ExplainedDecision, ExplainedRule, Explanation, TryForm,
    TryRequest, Verdict,
};
