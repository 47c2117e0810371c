//! An access log against the rules in force, or against edited ones.

use axum::body::Body;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tollgate::Policy;
use tollgate::rules::{Format, PolicyDocument, Problem as Flaw, Source, to_yaml};
use tollgate_dashboard::Page;
use tollgate_dashboard::model::{
    Finding, FindingKind, SimulateForm, Simulation, SimulationReport, Tab,
};
use tollgate_simulate::ReplayOptions;
use tollgate_simulate::traffic::FormatChoice;

use crate::admin::auth::Right;
use crate::edge::http::extract::BodyBound;
use crate::edge::http::problem::Problem;
use crate::edge::ui::multipart::{self, FormPart};
use crate::edge::ui::origin_check::is_of_another_site;
use crate::edge::ui::page::{html, refused};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::simulation::{MAX_DURATION, STORE_BYTES, SimulationJob};
use crate::edge::ui::visit::{Visit, check_token, cross_site};
use crate::edge::ui::{UiState, form};
use crate::observe::preview::PolicyChange;
use crate::observe::preview::changed_policy::{ChangedPolicy, PolicyBase};
use crate::observe::replay_budget::{CancelOnDrop, ReplayBudget};

/// Larger policies are not shown to be edited.
const MAX_SHOWN_POLICY: usize = 256 << 10;
/// How many findings a page shows.
const MAX_FINDINGS: usize = 50;

/// What the page shows before a log is sent.
pub(super) fn gather(visit: &Visit) -> Result<Simulation, PageProblem> {
    visit.require(Right::RuleViewer)?;
    let form = form_of(visit, &visit.simulated_base());
    Ok(Simulation { form, ..Simulation::default() })
}

/// Replays the log of a form.
pub(in crate::edge::ui) async fn replay(State(ui): State<UiState>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if is_of_another_site(&parts.uri, &parts.headers) {
        return PageProblem::from(cross_site()).respond(None);
    }
    let visit = match Visit::from_request_parts(&mut parts, &ui).await {
        Ok(visit) => visit,
        Err(response) => return response,
    };
    let replayed = Box::pin(replayed(&visit, &parts.headers, body)).await;
    visit
        .show(|visit| async move {
            let (model, problem) = replayed?.unwrap_or_else(|problem| {
                // The form is shown again, with what is wrong.
                let form = form_of(&visit, &visit.simulated_base());
                let sentence = Some(problem.sentence());
                (Simulation { form, problem: sentence, ..Simulation::default() }, Some(problem))
            });
            let page = Page::Simulate(Box::new(model)).html(&visit.chrome(Tab::Simulate));
            Ok(match problem {
                Some(problem) => refused(page, &problem),
                None => html(page),
            })
        })
        .await
}

impl Visit {
    /// The policy that a simulation starts from: of a tenant, its own rules.
    fn simulated_base(&self) -> PolicyBase {
        let base = self.ui.app.policy_base().without_bans();
        match self.principal.tenant() {
            Some(tenant) => base.of_tenant(tenant),
            None => base,
        }
    }
}

/// The empty form.
fn form_of(visit: &Visit, base: &PolicyBase) -> SimulateForm {
    let yaml = to_yaml(&base.document(visit.principal.tenant().is_none())).unwrap_or_default();
    let yaml = if yaml.len() <= MAX_SHOWN_POLICY {
        yaml
    } else {
        "# The rules in force are too many to be shown here. Paste those that you want to try.\n\
         rules: []\n"
            .to_owned()
    };
    SimulateForm {
        max_bytes: visit.ui.app.log_bytes as u64,
        formats: FormatChoice::ALL.iter().map(|(name, _)| (*name).to_owned()).collect(),
        format: "auto".to_owned(),
        is_edited: false,
        yaml,
    }
}

/// A page, and what is wrong with what was sent.
type SimulatedPage = (Simulation, Option<PageProblem>);

/// Reads the form and replays its log. The inner error is shown beside the form, the outer one instead of it.
async fn replayed(
    visit: &Visit,
    headers: &HeaderMap,
    body: Body,
) -> Result<Result<SimulatedPage, PageProblem>, PageProblem> {
    visit.require(Right::RuleViewer)?;
    let app = &visit.ui.app;
    let boundary = multipart::boundary(headers)?;
    app.guard.admin_call(&visit.principal, false)?;
    // From here on, as much memory may be taken as the form is long.
    let ticket = match app.queues.simulations.enter(&visit.caller()) {
        Ok(ticket) => ticket,
        Err(problem) => return Ok(Err(in_progress(&problem).into())),
    };
    let max_bytes = app.log_bytes.saturating_add(app.body_bytes);
    let body = match multipart::read(app, headers, body, max_bytes).await {
        Ok(body) => body,
        Err(problem) => return Ok(Err(problem.into())),
    };
    // The body may have taken a while.
    app.confirm(&visit.principal)?;
    let canceller = CancelOnDrop::default();
    let (own, is_cancelled) = (visit.clone(), canceller.flag());
    let replaying = async move {
        // The time begins when it is its turn.
        let budget = ReplayBudget::new(is_cancelled, MAX_DURATION);
        simulate(&own, &body, &boundary, budget)
    };
    let simulation = ticket.run(replaying).await?;
    drop(canceller);
    Ok(Ok(simulation?))
}

/// Why a simulation cannot begin now, and when it can.
fn in_progress(problem: &Problem) -> Problem {
    let seconds = MAX_DURATION.as_secs();
    let detail = if problem.status() == StatusCode::TOO_MANY_REQUESTS {
        format!(
            "a simulation of yours is in progress: wait until it ends, which takes {seconds} s at most, and send the log \
             again"
        )
    } else {
        format!(
            "as many simulations are in progress as this server takes at a time: send the log again in {seconds} s"
        )
    };
    Problem::new(problem.status(), problem.code(), detail)
        .with_header(header::RETRY_AFTER, HeaderValue::from(seconds))
}

/// Replays the log of a form, on a thread that no check waits for.
fn simulate(
    visit: &Visit,
    body: &[u8],
    boundary: &str,
    budget: ReplayBudget,
) -> Result<SimulatedPage, Problem> {
    let app = &visit.ui.app;
    let parts = multipart::parts(body, boundary)?;
    let part = |name: &str| parts.iter().find(|part| part.name == name);
    let text = |name: &str| part(name).map_or(Ok(""), FormPart::text);
    check_token(visit, text(form::TOKEN_FIELD)?)?;
    let base = visit.simulated_base();
    let mut form = form_of(visit, &base);
    form.is_edited = text("policy")? == "edited";
    text("format")?.clone_into(&mut form.format);
    let document = text("document")?.replace("\r\n", "\n");
    if document.len() > app.body_bytes {
        let BodyBound { bytes, setting } = BodyBound::bodies(app.body_bytes);
        let detail = format!("the edited rules are larger than {bytes} bytes ({setting})");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail));
    }
    if form.is_edited {
        form.yaml = document;
    }
    let mut simulation = Simulation { form, ..Simulation::default() };
    let problem = match attempt(visit, &base, part("log"), &simulation.form, budget) {
        Ok(report) => {
            simulation.report = Some(report);
            return Ok((simulation, None));
        }
        Err(NotReplayed::Policy(findings)) => {
            simulation.findings = findings;
            PageProblem::invalid("the edited rules are invalid: see below them")
        }
        Err(NotReplayed::Other(problem)) => problem.into(),
    };
    simulation.problem = Some(problem.sentence());
    Ok((simulation, Some(problem)))
}

/// Why a log was not replayed.
enum NotReplayed {
    /// The edited policy is invalid.
    Policy(Vec<Finding>),
    Other(Problem),
}

impl From<Problem> for NotReplayed {
    fn from(problem: Problem) -> Self {
        Self::Other(problem)
    }
}

fn attempt(
    visit: &Visit,
    base: &PolicyBase,
    log: Option<&FormPart<'_>>,
    form: &SimulateForm,
    budget: ReplayBudget,
) -> Result<SimulationReport, NotReplayed> {
    let app = &visit.ui.app;
    let log = log.filter(|log| !log.content.is_empty()).ok_or_else(|| {
        Problem::unprocessable("missing_field", "choose an access log that is not empty")
    })?;
    if log.content.len() > app.log_bytes {
        return Err(multipart::too_large(app).into());
    }
    let format = form.format.parse::<FormatChoice>();
    let format =
        format.map_err(|error| Problem::unprocessable("invalid_form", error.to_string()))?;
    let job = SimulationJob {
        log: log.content,
        file: log.file_name.filter(|name| !name.is_empty()).unwrap_or("the log"),
        format,
        max_log_bytes: app.log_bytes,
        policy: policy_of(visit, base, form)?,
        tenant: visit.principal.tenant(),
        options: ReplayOptions {
            store_bytes: STORE_BYTES,
            path_case: app.check_options.path_case,
            unmatched: app.check_options.unmatched,
        },
        budget,
    };
    // An edited rule is not the one in force that has its name.
    let visible = if form.is_edited { Vec::new() } else { visit.visible_rules() };
    Ok(SimulationReport {
        rules_in_force: visible.into_iter().map(|rule| rule.rule_id).collect(),
        ..job.run()?
    })
}

/// The policy that a form asks for.
fn policy_of(
    visit: &Visit,
    base: &PolicyBase,
    form: &SimulateForm,
) -> Result<ChangedPolicy, NotReplayed> {
    if !form.is_edited {
        return Ok(base.changed(PolicyChange::default(), None)?);
    }
    let mut source = Source::parse_as(&form.yaml, Format::Yaml);
    if !source.problems.is_empty() {
        return Err(NotReplayed::Policy(findings(&source.problems)));
    }
    let document: PolicyDocument = source.document.clone();
    let tenant = visit.principal.tenant();
    if tenant.is_some() {
        source.document.tiers.extend(base.document(true).tiers);
    }
    Policy::compile(&source).map_err(|flaws| NotReplayed::Policy(findings(&flaws)))?;
    Ok(base.changed(base.replaced_by(document), tenant)?)
}

fn findings(flaws: &[Flaw]) -> Vec<Finding> {
    let finding = |flaw: &Flaw| Finding {
        kind: FindingKind::Error,
        field: flaw.path.clone(),
        line: flaw.position.map(|position| u64::from(position.line)),
        message: flaw.message.clone(),
        advice: flaw.advice.clone(),
    };
    flaws.iter().take(MAX_FINDINGS).map(finding).collect()
}
