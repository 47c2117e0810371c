//! Makes the changes of a plan that was shown, and no others.

use http::StatusCode;

use super::plan::ChangePlan;
use crate::failure::Failure;
use crate::remote::call_error::CallError;
use crate::remote::client::Fetched;

/// How often a plan is retried when others change what it does not touch.
const MAX_ATTEMPTS: usize = 5;

/// A call that changes a catalog: whether it is a dry run, and the version that the catalog has to have.
pub(super) trait PlannedCall {
    fn send(&self, is_dry_run: bool, etag: Option<&str>) -> Result<Fetched<ChangePlan>, CallError>;

    /// Why the server refuses it.
    fn failure(&self, error: CallError) -> Failure;

    /// What would change now.
    fn plan(&self) -> Result<Fetched<ChangePlan>, Failure> {
        self.send(true, None).map_err(|error| self.failure(error))
    }

    /// Makes the changes of a plan, unless the plan would be another one by now.
    fn write(&self, plan: Fetched<ChangePlan>) -> Result<Fetched<ChangePlan>, Failure> {
        let mut etag = plan.etag;
        for _ in 0..MAX_ATTEMPTS {
            match self.send(false, etag.as_deref()) {
                Ok(done) => return Ok(done),
                Err(CallError::Refused(refusal))
                    if refusal.status == StatusCode::PRECONDITION_FAILED => {}
                Err(CallError::Failed(Failure::Usage(why))) => {
                    let advice = "see with `tollgate rules diff` whether it was applied";
                    return Err(Failure::usage(format!("{why}; {advice}")));
                }
                Err(error) => return Err(self.failure(error)),
            }
            let now = self.plan()?;
            if !now.value.is_like(&plan.value) {
                return Err(Failure::refused(
                    "the catalog was changed meanwhile, and the plan is another one now; nothing was \
                     applied. Run it again to see the new plan.",
                ));
            }
            etag = now.etag;
        }
        Err(Failure::refused(
            "the catalog is being changed all the time; nothing was applied. Run it again.",
        ))
    }
}
