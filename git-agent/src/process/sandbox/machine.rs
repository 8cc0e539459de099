//! What this machine's kernel can hold, and why not more.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::error::Result;
use crate::process::sandbox::{landlock, namespaces};

/// The abilities of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// The version of Landlock; 0 without.
    pub landlock: u32,
    /// Why namespaces cannot be used; nothing if they can.
    pub no_namespaces: Option<String>,
}

impl Abilities {
    /// Returns whether agents can be kept from everything outside their room.
    pub fn holds_room(&self) -> bool {
        self.landlock > 0
    }

    /// Returns why a room cannot be held at all.
    pub fn why_no_room(&self) -> Option<String> {
        (!self.holds_room()).then(|| {
            "this kernel has no Landlock (Linux 5.13 and later, not turned off at boot)".to_owned()
        })
    }

    /// Returns what a room leaves open here, one sentence each.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if let Some(why) = &self.no_namespaces {
            gaps.push(format!(
                "{why}: an agent can change the mode, owner and times of the user's own files and read the variables of \
                 the user's other processes; /tmp is not private, sockets with a path are refused altogether, and \
                 processes are swept instead of ended by the kernel"
            ));
        }
        if self.landlock < landlock::WITH_SCOPES && self.holds_room() {
            gaps.push(format!(
                "Landlock version {}: signals and abstract sockets are not kept inside (version {} does)",
                self.landlock,
                landlock::WITH_SCOPES
            ));
        }
        gaps
    }
}

/// Returns the kernel's version of Landlock.
pub fn landlock_version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(landlock::version)
}

/// Returns what this machine can hold. Namespaces are tried in a process of their own, once.
pub fn abilities() -> Abilities {
    static ABILITIES: OnceLock<Abilities> = OnceLock::new();
    let found = ABILITIES.get_or_init(|| Abilities {
        landlock: landlock_version(),
        no_namespaces: why_no_namespaces(),
    });
    found.clone()
}

fn why_no_namespaces() -> Option<String> {
    let tried = Command::new(format!("/proc/{}/exe", std::process::id()))
        .args([crate::process::shim::VERB, TRY])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    let why = match tried {
        Ok(ended) if ended.status.success() => return None,
        Ok(ended) => {
            let words = String::from_utf8_lossy(&ended.stderr).into_owned();
            words.trim().trim_start_matches("fatal: ").to_owned()
        }
        Err(error) => error.to_string(),
    };
    let apparmor =
        std::fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    Some(if apparmor.is_ok_and(|text| text.trim() == "1") {
        "AppArmor forbids user namespaces (kernel.apparmor_restrict_unprivileged_userns)".to_owned()
    } else {
        why
    })
}

/// The option that makes the shim try namespaces.
pub(in crate::process) const TRY: &str = "--try";

/// Tries namespaces in this process, which ends afterwards.
pub(in crate::process) fn try_out() -> Result<()> {
    namespaces::try_out()
}
