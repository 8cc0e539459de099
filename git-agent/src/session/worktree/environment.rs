//! The environment of everything that runs in a session's worktree: setup, agent, tests, shell.
//!
//! Built from an allow-list: variables that the user exported for other work, keys above all, do not reach an agent.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use crate::context::inherited_variables::{INHERITED, matches_any};
use crate::env::{Env, GIT_LOCATION_VARIABLES};
use crate::error::{Error, Result};
use crate::guard;
use crate::model::session::SessionId;
use crate::session::caller;

/// Ports handed out.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 10_000;

/// A compose project's name is cut to this many characters.
const LONGEST_PROJECT: usize = 63;

/// The values of one session.
#[derive(Debug, Clone)]
pub struct Particulars<'a> {
    pub sid: SessionId,
    /// Its human name.
    pub name: &'a str,
    /// The top of its worktree.
    pub worktree: &'a Path,
    /// The top of the repository's main worktree, or the repository itself if it is bare.
    pub repo: &'a Path,
    /// The directory of our own programs, so that `git agent …` works inside.
    pub programs: &'a Path,
    pub port: u16,
    /// Further variables to inherit, by name or by prefix ending in `*`: `agent.env`, and what the agent needs.
    pub inherited: &'a [String],
}

/// Returns the complete environment of a session.
pub fn environment(env: &Env, session: &Particulars<'_>) -> BTreeMap<OsString, OsString> {
    let mut before: BTreeMap<OsString, OsString> = env
        .vars_os()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    // A session may be started from inside another.
    guard::environment::leave(&mut before);
    let mut variables: BTreeMap<OsString, OsString> = before
        .into_iter()
        .filter(|(name, _)| {
            let asked = session.inherited.iter().map(String::as_str);
            matches_any(name, INHERITED.iter().copied().chain(asked))
        })
        .collect();
    for name in GIT_LOCATION_VARIABLES {
        variables.remove(OsStr::new(name));
    }
    let path = with_programs(variables.get(OsStr::new("PATH")), session.programs);
    let mut set = |name: &str, value: OsString| variables.insert(name.into(), value);
    set("PATH", path);
    set("WORKTREE_PATH", session.worktree.into());
    set("REPO_PATH", session.repo.into());
    set(caller::MARK, session.sid.as_str().into());
    set("PORT", session.port.to_string().into());
    let project = compose_project(session.repo, session.name, session.sid);
    set("COMPOSE_PROJECT_NAME", project.into());
    variables
}

/// Returns PATH with our programs at its end unless it has them: in front they could hide other programs beside them.
fn with_programs(path: Option<&OsString>, programs: &Path) -> OsString {
    let directories: Vec<PathBuf> = path
        .map(|path| std::env::split_paths(path).collect())
        .unwrap_or_default();
    let mut text = path.cloned().unwrap_or_default();
    // A directory with a colon in its name has no place on PATH.
    let nameable = !programs.as_os_str().as_encoded_bytes().contains(&b':');
    if nameable && !directories.iter().any(|known| known == programs) {
        if !text.is_empty() {
            text.push(":");
        }
        text.push(programs);
    }
    text
}

/// Returns a name for the session's containers that compose accepts and no other session has.
pub fn compose_project(repo: &Path, name: &str, sid: SessionId) -> String {
    let repo = repo.file_name().unwrap_or_default().to_string_lossy();
    let slug = |text: &str| -> String {
        let words: Vec<String> = text
            .to_lowercase()
            .split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        words.join("-")
    };
    let tail = &sid.as_str()[sid.as_str().len() - 8..];
    let mut project = format!("{}-{}", slug(repo.trim_end_matches(".git")), slug(name));
    project.truncate(LONGEST_PROJECT - tail.len() - 1);
    let stem = project.trim_matches(['-', '_']);
    if stem.is_empty() {
        tail.to_owned()
    } else {
        format!("{stem}-{tail}")
    }
}

/// Returns a session's ports in the order of preference; the first depends on nothing but the session.
pub fn port_candidates(sid: SessionId) -> impl Iterator<Item = u16> {
    // FNV-1a: must give the same answer in every version.
    let hash = sid
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let start = u16::try_from(hash % u64::from(PORTS)).unwrap_or(0);
    // Any step that has no factor in common with the number of ports visits all of them; one that is not 1 leaves
    // room for programs that also take the next port.
    (0..PORTS).map(move |n| {
        let offset = (u32::from(start) + u32::from(n) * 17) % u32::from(PORTS);
        FIRST_PORT + u16::try_from(offset).unwrap_or(0)
    })
}

/// Returns a port that no other session has and no program listens on. The caller stores it: it stays the session's.
pub fn choose_port(sid: SessionId, taken: &BTreeSet<u16>) -> Result<u16> {
    port_candidates(sid)
        .filter(|port| !taken.contains(port))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| {
            Error::fatal(format!(
                "no free port between {FIRST_PORT} and {}",
                FIRST_PORT + PORTS - 1
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Millis, Terminals};

    fn sid(n: u8) -> SessionId {
        SessionId::from_parts(Millis(1_794_000_000_000), [n; 10])
    }

    fn environment_of(pairs: &[(&str, &str)], inherited: &[&str]) -> BTreeMap<String, String> {
        let env = Env::new(
            "/".into(),
            pairs
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
            Terminals::default(),
        );
        let inherited: Vec<String> = inherited.iter().map(ToString::to_string).collect();
        let text = |text: OsString| text.into_string().expect("plain text");
        environment(
            &env,
            &Particulars {
                sid: sid(1),
                name: "Fix: the wipe",
                worktree: Path::new("/w/fix"),
                repo: Path::new("/src/My Shop"),
                programs: Path::new("/opt/git-agent"),
                port: 20_001,
                inherited: &inherited,
            },
        )
        .into_iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
    }

    #[test]
    fn only_listed_variables_come_along() {
        let inside = environment_of(
            &[
                ("PATH", "/usr/bin:/bin"),
                ("HOME", "/home/me"),
                ("LC_CTYPE", "C"),
                ("XDG_CONFIG_HOME", "/home/me/.config"),
                ("AWS_SECRET_ACCESS_KEY", "secret"),
                ("OPENAI_API_KEY", "needed"),
                ("MY_APP_A", "1"),
                ("GIT_DIR", "/elsewhere/.git"),
                ("GIT_INDEX_FILE", "/elsewhere/index"),
                ("GIT_AUTHOR_NAME", "A"),
                ("GIT_AUTHOR_DATE", "yesterday"),
                ("PORT", "80"),
            ],
            &["OPENAI_API_KEY", "MY_APP_*", "GIT_DIR"],
        );
        let names: Vec<&str> = inside.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "COMPOSE_PROJECT_NAME",
                caller::MARK,
                "GIT_AUTHOR_NAME",
                "HOME",
                "LC_CTYPE",
                "MY_APP_A",
                "OPENAI_API_KEY",
                "PATH",
                "PORT",
                "REPO_PATH",
                "WORKTREE_PATH",
                "XDG_CONFIG_HOME",
            ]
        );
        assert_eq!(inside["PATH"], "/usr/bin:/bin:/opt/git-agent");
        assert_eq!(inside["PORT"], "20001");
        assert_eq!(inside[caller::MARK], sid(1).as_str());
        assert_eq!(inside["REPO_PATH"], "/src/My Shop");
        assert_eq!(inside["WORKTREE_PATH"], "/w/fix");
    }

    #[test]
    fn our_programs_stand_on_path_once() {
        let path = |before: &str| environment_of(&[("PATH", before)], &[])["PATH"].clone();
        assert_eq!(path("/opt/git-agent:/bin"), "/opt/git-agent:/bin");
        assert_eq!(path(""), "/opt/git-agent");
        assert_eq!(environment_of(&[], &[])["PATH"], "/opt/git-agent");
        let odd = with_programs(Some(&"/bin".into()), Path::new("/a:b"));
        assert_eq!(odd, "/bin");
    }

    #[test]
    fn project_names_are_valid_and_differ() {
        for (repo, name) in [
            ("/src/My Shop", "Fix: the wipe"),
            ("/src/shop.git", "x"),
            ("/", ""),
            ("/src/été", "___"),
            ("/src/a", &"long ".repeat(60)),
        ] {
            let project = compose_project(Path::new(repo), name, sid(1));
            assert!(
                project.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                    && project.len() <= LONGEST_PROJECT
                    && project.bytes().all(|b| b.is_ascii_lowercase()
                        || b.is_ascii_digit()
                        || b"_-".contains(&b)),
                "{project}"
            );
            assert_ne!(
                project,
                compose_project(Path::new(repo), name, sid(2)),
                "another session has another project"
            );
        }
        let project = compose_project(Path::new("/src/My Shop"), "Fix: the wipe", sid(1));
        assert!(project.starts_with("my-shop-fix-the-wipe-"), "{project}");
    }

    #[test]
    fn ports_are_stable_and_never_shared() {
        let all: BTreeSet<u16> = port_candidates(sid(3)).collect();
        assert_eq!(all.len(), usize::from(PORTS), "every port is tried once");
        assert!(all.iter().all(|port| (20_000..30_000).contains(port)));
        let first = port_candidates(sid(3)).next().expect("a port");
        assert_eq!(port_candidates(sid(3)).next(), Some(first));
        let chosen = choose_port(sid(3), &BTreeSet::new()).expect("a free port");
        let other = choose_port(sid(3), &BTreeSet::from([chosen])).expect("another free port");
        assert_ne!(chosen, other);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, other)).expect("it was free");
        let third = choose_port(sid(3), &BTreeSet::from([chosen])).expect("a third one");
        assert_ne!(third, other, "a port in use is passed over");
        drop(listener);
        assert!(choose_port(sid(3), &all).is_err());
    }
}
