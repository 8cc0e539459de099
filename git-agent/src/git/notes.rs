//! Notes for people, below `refs/notes/`, written by git in one go.

use crate::error::Result;
use crate::git::{ObjectId, Repo};

impl Repo {
    /// Replaces all notes of a ref by these. The same notes at the same time make the same commit.
    pub fn replace_notes(
        &self,
        name: &str,
        notes: &[(ObjectId, String)],
        seconds: i64,
    ) -> Result<()> {
        if notes.is_empty() && self.find_ref(name)?.is_none() {
            return Ok(());
        }
        let message = "Notes rendered by git-agent\n";
        let mut input = format!(
            "commit {name}\ncommitter git-agent <git-agent@localhost> {} +0000\ndata {}\n{message}\n",
            seconds.max(0),
            message.len()
        );
        for (on, text) in notes {
            input.push_str(&format!("N inline {on}\ndata {}\n{text}\n", text.len()));
        }
        input.push_str("\ndone\n");
        self.git_common()
            .durable()
            .args(["fast-import", "--quiet", "--force", "--done"])
            .input(input)
            .run()?;
        Ok(())
    }
}
