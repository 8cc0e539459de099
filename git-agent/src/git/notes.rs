//! Writes notes for people below `refs/notes/`, with one call of git.

use crate::error::Result;
use crate::git::{ObjectId, Repo};

impl Repo {
    /// Replaces all notes of a ref. The same notes with the same time give the same commit.
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
