//! Decides which refs a session may move, and writes the message if it may not. Pure.

use std::fmt;

use crate::error::Error;

/// Maximum number of refs named in a message.
const NAMED: usize = 5;

/// The refs a session may move: full names, and prefixes that end in `/`. An empty list means read-only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Own(Vec<String>);

impl Own {
    /// Returns the right to move these refs.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Own(names
            .into_iter()
            .map(Into::into)
            .filter(|name: &String| !name.is_empty())
            .collect())
    }

    /// Returns the right to move a branch, given by its short name.
    pub fn branch(short: &str) -> Self {
        Own::new([format!("refs/heads/{short}")])
    }

    /// Returns the right to move the refs that belong to one worktree.
    pub fn of_worktree() -> Self {
        Own::new(["refs/worktree/"])
    }

    /// Returns the right to move nothing.
    pub fn read_only() -> Self {
        Own::default()
    }

    /// Parses the text form of [`Own`]. Names of refs contain no colon.
    pub fn parse(text: &str) -> Self {
        Own::new(text.split(':'))
    }

    /// Returns whether nothing may be moved.
    pub fn is_read_only(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a ref, by its full name, may be moved.
    pub fn owns(&self, name: &str) -> bool {
        self.0.iter().any(|own| match own.strip_suffix('/') {
            Some(_) => name.len() > own.len() && name.starts_with(own.as_str()),
            None => name == own,
        })
    }

    /// Returns the names and prefixes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the first full name, which is the session's branch.
    pub fn first(&self) -> Option<&str> {
        self.names().find(|name| !name.ends_with('/'))
    }
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(":"))
    }
}

/// The worktree in which a git command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefPlace {
    /// The session's own worktree.
    Own,
    /// Another worktree that is on the session's branch, or is being created.
    OnOwnBranch,
    /// Any other worktree.
    Foreign,
}

/// One line of a reference transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The old value from git: an id, `ref:<target>`, or zeros for both "absent" and "any".
    pub old: String,
    /// The new value: an id, `ref:<target>`, or zeros for a deletion.
    pub new: String,
    /// The ref's full name.
    pub name: String,
}

impl Update {
    /// Parses one line of the hook's standard input.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ' ');
        Some(Update {
            old: parts.next()?.to_owned(),
            new: parts.next()?.to_owned(),
            name: parts.next().filter(|name| !name.is_empty())?.to_owned(),
        })
    }

    /// Returns whether the ref exists afterwards and may not have existed before.
    pub fn is_creation(&self) -> bool {
        is_zero(&self.old) && !is_zero(&self.new)
    }

    /// Returns whether the ref is deleted.
    pub fn is_deletion(&self) -> bool {
        is_zero(&self.new)
    }

    /// Returns whether HEAD is deleted, as happens first when its branch is renamed.
    pub fn removes_head(&self) -> bool {
        self.name == "HEAD" && is_zero(&self.new)
    }

    fn symbolic_target(&self) -> Option<&str> {
        self.new.strip_prefix("ref:")
    }
}

fn is_zero(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte == b'0')
}

/// git commands with special rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Creates tags.
    Fetch,
    /// Moves HEAD only after it has renamed a branch, which no hook can refuse (reftable).
    Branch,
    /// Any other command.
    Other,
}

/// The rules for a session's changes of refs.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    /// The refs that it may move.
    pub own: &'a Own,
    /// The worktree in which the command runs.
    pub place: RefPlace,
    /// The command.
    pub verb: Verb,
}

impl Policy<'_> {
    /// Returns whether a change is allowed.
    ///
    /// Equal old and new values do not make a change harmless: a deletion without a known value has zeros on both
    /// sides.
    pub fn allows(&self, update: &Update) -> bool {
        if self.own.is_read_only() {
            return false;
        }
        let name = update.name.as_str();
        if let Some(target) = update.symbolic_target()
            && !name.starts_with("refs/remotes/")
        {
            // A ref that points at `main` would move `main` with the next commit.
            let movable =
                self.own.owns(name) || (name == "HEAD" && self.place != RefPlace::Foreign);
            // Half a rename would leave HEAD on a deleted branch, and the next commit without history.
            let renames = name == "HEAD" && self.verb == Verb::Branch;
            return movable && (self.own.owns(target) || renames);
        }
        if self.own.owns(name) || name.starts_with("refs/remotes/") {
            return true;
        }
        if name == "HEAD" {
            // Creating a worktree resets it to its own commit.
            let stays = update.old == update.new;
            return !update.removes_head() && (self.place != RefPlace::Foreign || stays);
        }
        if is_root(name) {
            // Private files of git commands, such as AUTO_MERGE, which git deletes even if they do not exist.
            return true;
        }
        if is_per_worktree(name) {
            return self.place != RefPlace::Foreign;
        }
        name.starts_with("refs/tags/") && self.verb == Verb::Fetch && update.is_creation()
    }

    /// Returns the error for refused changes.
    pub fn refuse(&self, refused: &[Update]) -> Error {
        let mut names: Vec<String> = refused
            .iter()
            .take(NAMED)
            .map(|update| format!("'{}'", self.described(update)))
            .collect();
        if refused.len() > NAMED {
            names.push(format!("{} more", refused.len() - NAMED));
        }
        let names = names.join(", ");
        if self.own.is_read_only() {
            return Error::negative(format!(
                "git-agent: this session may only read, not move {names}"
            ))
            .hint("report the change instead of making it");
        }
        let own: Vec<&str> = self.own.names().map(short).collect();
        let own = own.join("', '");
        let error = Error::negative(format!(
            "git-agent: this session may move only '{own}', not {names}"
        ));
        let Some(first) = refused.first() else {
            return error;
        };
        error.hint(self.advice(first))
    }

    fn described(&self, update: &Update) -> String {
        match (update.name.as_str(), update.symbolic_target()) {
            ("HEAD", Some(target)) => format!("HEAD -> {}", short(target)),
            ("HEAD", None) if update.removes_head() => "HEAD -> nothing".to_owned(),
            ("HEAD", None) => "HEAD of another worktree".to_owned(),
            (name, _) => short(name).to_owned(),
        }
    }

    fn advice(&self, update: &Update) -> String {
        let branch = self.own.first().map_or("its own branch", short);
        let name = update.name.as_str();
        if name == "refs/stash" {
            return "commit the work in progress instead: git commit -am wip".to_owned();
        }
        match (name, update.symbolic_target()) {
            ("HEAD", Some(target)) => format!(
                "stay on '{branch}'; to look at '{0}': git switch --detach {0}",
                short(target)
            ),
            ("HEAD", None) if update.removes_head() => {
                format!("do not rename '{branch}' before it is merged")
            }
            ("HEAD", None) => "work in this session's own worktree".to_owned(),
            _ if name.starts_with("refs/heads/") => format!(
                "commit on '{branch}'; after review, git agent merge merges it into other branches"
            ),
            _ if name.starts_with("refs/tags/") => {
                "name the commit in your answer; tags are made after the merge".to_owned()
            }
            _ => format!("everything but '{branch}' belongs to the repository"),
        }
    }
}

/// Returns whether this is a ref at the root of a worktree's git directory, such as `ORIG_HEAD`.
fn is_root(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Returns whether every worktree has its own ref of this name, apart from those at the root.
fn is_per_worktree(name: &str) -> bool {
    ["refs/bisect/", "refs/worktree/", "refs/rewritten/"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Returns a ref's name without `refs/heads/`.
pub fn short(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: &str = "0000000000000000000000000000000000000000";
    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn own() -> Own {
        Own::parse("refs/heads/agent/fix:refs/heads/agent/fix-parts/")
    }

    fn allows(place: RefPlace, line: &str) -> bool {
        let update = Update::parse(line).expect("a line");
        let own = own();
        Policy {
            own: &own,
            place,
            verb: Verb::Other,
        }
        .allows(&update)
    }

    #[test]
    fn names_and_prefixes_are_owned() {
        let own = own();
        assert_eq!(Own::parse(&own.to_string()), own);
        for name in [
            "refs/heads/agent/fix",
            "refs/heads/agent/fix-parts/a",
            "refs/heads/agent/fix-parts/a/b",
        ] {
            assert!(own.owns(name), "{name}");
        }
        for name in [
            "refs/heads/agent/fix2",
            "refs/heads/agent/fix/a",
            "refs/heads/agent/fix-parts/",
            "refs/heads/agent/fix-parts",
            "agent/fix",
            "refs/tags/agent/fix",
            "",
        ] {
            assert!(!own.owns(name), "{name}");
        }
        assert!(Own::parse("").is_read_only());
        assert!(Own::parse(":").is_read_only());
    }

    #[test]
    fn own_refs_move_and_no_others() {
        for (old, new) in [(ZERO, ONE), (ONE, TWO), (ONE, ZERO), (ZERO, ZERO)] {
            let allowed = |name| allows(RefPlace::Own, &format!("{old} {new} {name}"));
            for name in [
                "refs/heads/agent/fix",
                "refs/heads/agent/fix-parts/x",
                "refs/remotes/origin/main",
                "ORIG_HEAD",
                "AUTO_MERGE",
                "CHERRY_PICK_HEAD",
                "refs/bisect/bad",
                "refs/worktree/x",
                "refs/rewritten/onto",
            ] {
                assert!(allowed(name), "{name}");
            }
            for name in [
                "refs/heads/main",
                "refs/stash",
                "refs/tags/v1",
                "refs/notes/commits",
                "refs/replace/1",
                "refs/anything/else",
                "main-worktree/HEAD",
                "worktrees/b/HEAD",
                "refs/remotes",
            ] {
                assert!(!allowed(name), "{name}");
            }
        }
    }

    #[test]
    fn symbolic_refs_lead_to_own_refs_only() {
        for (line, allowed) in [
            (format!("{ZERO} ref:refs/heads/agent/fix HEAD"), true),
            (format!("{ZERO} ref:refs/heads/main HEAD"), false),
            (
                format!("{ZERO} ref:refs/heads/main refs/heads/agent/fix"),
                false,
            ),
            (
                format!("{ZERO} ref:refs/heads/agent/fix refs/heads/main"),
                false,
            ),
            (
                format!("{ZERO} ref:refs/remotes/origin/main refs/remotes/origin/HEAD"),
                true,
            ),
        ] {
            assert_eq!(allows(RefPlace::Own, &line), allowed, "{line}");
        }
    }

    #[test]
    fn other_worktrees_stay_where_they_are() {
        for (line, allowed) in [
            (format!("{ONE} {TWO} HEAD"), false),
            (format!("{ZERO} {TWO} HEAD"), false),
            (format!("{ZERO} {ZERO} HEAD"), false),
            (format!("{ONE} {ONE} HEAD"), true),
            (format!("{ZERO} {ZERO} AUTO_MERGE"), true),
            (format!("{ZERO} ref:refs/heads/agent/fix HEAD"), false),
            (format!("{ZERO} {ONE} refs/bisect/bad"), false),
            (format!("{ZERO} {ONE} refs/heads/agent/fix"), true),
        ] {
            assert_eq!(allows(RefPlace::Foreign, &line), allowed, "{line}");
        }
        for place in [RefPlace::Own, RefPlace::OnOwnBranch] {
            assert!(allows(place, &format!("{ONE} {TWO} HEAD")));
            assert!(allows(place, &format!("{ZERO} {TWO} HEAD")));
            assert!(!allows(place, &format!("{ONE} {ZERO} HEAD")));
        }
    }

    #[test]
    fn few_commands_may_do_more() {
        let own = own();
        let policy = |verb| Policy {
            own: &own,
            place: RefPlace::Own,
            verb,
        };
        let update = |old: &str, new: &str| {
            Update::parse(&format!("{old} {new} refs/tags/v1")).expect("a line")
        };
        assert!(policy(Verb::Fetch).allows(&update(ZERO, ONE)));
        assert!(!policy(Verb::Fetch).allows(&update(ONE, TWO)));
        assert!(!policy(Verb::Fetch).allows(&update(ONE, ZERO)));
        assert!(!policy(Verb::Other).allows(&update(ZERO, ONE)));
        let renamed = Update::parse(&format!("{ZERO} ref:refs/heads/new HEAD")).expect("a line");
        assert!(policy(Verb::Branch).allows(&renamed));
        assert!(!policy(Verb::Other).allows(&renamed));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let own = Own::branch("agent/fix");
        let policy = Policy {
            own: &own,
            place: RefPlace::Own,
            verb: Verb::Other,
        };
        let stash = Update::parse(&format!("{ZERO} {ONE} refs/stash")).expect("a line");
        let error = policy.refuse(&[stash]);
        assert_eq!(
            error.message(),
            "git-agent: this session may move only 'agent/fix', not 'refs/stash'"
        );
        assert_eq!(
            error.hints(),
            ["commit the work in progress instead: git commit -am wip"]
        );
        let head = Update::parse(&format!("{ZERO} ref:refs/heads/main HEAD")).expect("a line");
        assert!(
            policy
                .refuse(&[head])
                .message()
                .ends_with("not 'HEAD -> main'")
        );
        let many: Vec<Update> = (0..9)
            .map(|n| Update::parse(&format!("{ZERO} {ONE} refs/x/{n}")).expect("a line"))
            .collect();
        assert!(policy.refuse(&many).message().ends_with(", 4 more"));
        let nothing = Own::read_only();
        let policy = Policy {
            own: &nothing,
            ..policy
        };
        assert!(policy.refuse(&many[..1]).message().contains("only read"));
    }
}
