//! The harness: everything a test needs to run the real programs through real git in a world of its own.
//!
//! `tests/README.md` says how to run, name and write tests.

pub mod asking;
pub mod bench;
pub mod binaries;
pub mod faults;
pub mod imported;
pub mod link;
pub mod output;
pub mod picture;
pub mod process;
pub mod repo;
pub mod sandbox;
pub mod sessions;
pub mod survivors;
pub mod team;
pub mod terminal;
pub mod toolbox;
pub mod trial;

pub use output::{Output, Run, text};
pub use process::{Background, Cmd, wait_until};
pub use repo::{Hash, RefFormat, Repo};
pub use sandbox::Sandbox;
pub use team::{Member, Team, Way};
pub use toolbox::Git;
