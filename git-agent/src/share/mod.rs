//! Sharing: pushes this clone's refs to a remote, and fetches the refs of teammates after checking them.
//!
//! | file | owns |
//! |---|---|
//! | `remote` | the choice of the remote, and the user's consent to share with it |
//! | `remote_refs` | which remotes have refs of this clone, by asking them |
//! | `plan` | the refs that a remote lacks, found by comparison, without a queue |
//! | `outgoing` | the last check for secrets and sizes before a push |
//! | `known_code` | code that a remote already has, so that it need not be searched |
//! | `push` | the push, in atomic batches |
//! | `outcome` | the result for one ref in a push or a fetch |
//! | `fetch` | the fetch of new refs |
//! | `quarantine` | fetched objects, held until they are checked; broken ones are left out |
//! | `accept` | the check of fetched refs, and their names |
//! | `unshared` | the number of uncommitted files, which are never shared |
//! | `forget` | deleting a session here and at remotes |
//! | `purge` | rewriting this clone's records without a secret |
//! | `probe` | a test of the access that a remote gives, and its cost |

pub use crate::git::remote::transfer::Audience;
pub use crate::git::remote::without_password;

mod accept;
pub mod fetch;
pub mod forget;
mod known_code;
pub mod outcome;
mod outgoing;
pub mod plan;
pub mod probe;
pub mod purge;
pub mod push;
mod quarantine;
pub mod remote;
mod remote_refs;
mod unshared;
