//! `--into`: a session's work as what a merge into another branch than its parent would bring.

use git_agent::context::Context;
use git_agent::error::Result;
use git_agent::merge::candidates::{self, Choice};
use git_agent::store::list::Listed;

/// Returns a session as if it had been made from the branch that was named, if one was. Nothing is recorded.
pub fn towards(context: &Context<'_>, mut listed: Listed, into: Option<&str>) -> Result<Listed> {
    if let Some(into) = into {
        let target = candidates::target(context, Some(into), &Choice::default())?;
        listed.session.parent = Some(target.branch);
    }
    Ok(listed)
}
