//! Files of a worktree that are neither shown nor judged.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::context::Context;
use crate::error::shell_path;
use crate::git::snapshot::scan::Reason;
use crate::output::Ui;
use crate::session::worktree::work::Work;

/// Reports files of the worktree that are neither shown nor judged.
pub fn warn(context: &Context<'_>, ui: &Ui, work: &Work) {
    for left in &work.left_out {
        let at = work.checkout.as_ref();
        let loose = match left.reason {
            Reason::Submodule => at.and_then(|at| context.repo.has_loose_work(at, &left.path)),
            _ => {
                ui.warning(format!("{left}: not included"));
                continue;
            }
        };
        match loose {
            Some(false) => {}
            Some(true) => {
                ui.warning(format!(
                    "{left} has uncommitted work, which is not included"
                ));
                let top = at.map(|at| at.top.join(OsStr::from_bytes(&left.path)));
                if let Some(top) = top {
                    ui.hint(format!("git -C {} status", shell_path(&top)));
                }
            }
            None => ui.warning(format!("{left}: uncommitted work in it is not included")),
        }
    }
}
