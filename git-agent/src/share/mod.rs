//! Sharing: this clone's refs given to a remote, and what others put there taken in after it was checked.
//!
//! | file | owns |
//! |---|---|
//! | `remote` | which remote is meant, and whether its readers may see sessions |
//! | `reach` | which remotes have something of this clone's, as they say themselves |
//! | `plan` | what a remote lacks, found by comparing refs; there is no list of what is still to be pushed |
//! | `inspect` | a last look at what is about to leave: secrets, sizes |
//! | `published` | what a remote has already, so that it need not be searched |
//! | `push` | giving, in batches that go whole or not at all |
//! | `change` | what became of one ref in a push or a fetch |
//! | `fetch` | what a remote has that is new here, asked for and taken in |
//! | `quarantine` | getting objects past broken ones, held until they are checked |
//! | `take` | checking what came, and naming what is good |
//! | `unshared` | what a session has not committed, which nobody else gets |
//! | `sign` | the user's signature on what is shared, and what signatures of others say |
//! | `signers` | who signed what came, remembered |
//! | `forget` | deleting a session, here and there |
//! | `purge` | writing one's own records again without a secret |
//! | `probe` | what a remote allows, and what it costs |

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
