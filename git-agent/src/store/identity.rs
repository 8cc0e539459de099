//! This clone's identity as author of records: random, and kept in a file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use crate::error::{Context, Error, Result};
use crate::model::session::WriterId;
use crate::store::Store;

impl Store<'_> {
    /// Returns this clone's writer id, and creates one the first time. `agent.writer` takes precedence, for machines
    /// that are rebuilt often and shall stay one writer.
    pub fn require_writer(&self) -> Result<WriterId> {
        if let Some(fixed) = self.repo.config_string("agent.writer") {
            return fixed.parse().map_err(|_| {
                Error::fatal(format!("bad value for 'agent.writer': '{fixed}'"))
                    .hint("git config agent.writer name-1a2b3c")
            });
        }
        if let Some(known) = self.writer()? {
            return Ok(known);
        }
        let dir = self.require_dir("tmp")?;
        let user = self.env.var("USER").unwrap_or_default();
        let drawn = WriterId::draw(self.env, user);
        let path = self.dir().join("writer");
        // A complete file is linked to its name: of several processes one wins, and none ever reads half a file.
        let temporary = dir.join(format!("writer-{}", std::process::id()));
        let write = || -> std::io::Result<()> {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(format!("{drawn}\n").as_bytes())?;
            file.sync_all()?;
            match fs::hard_link(&temporary, &path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
                Err(_) => fs::rename(&temporary, &path),
                Ok(()) => Ok(()),
            }
        };
        let written = write();
        let _ = fs::remove_file(&temporary);
        written.context(|| format!("cannot write '{}'", path.display()))?;
        self.writer()?
            .ok_or_else(|| Error::fatal("this clone's writer id is missing"))
    }

    /// Returns every known writer id that this clone writes or wrote under.
    pub fn own_writers(&self) -> Result<Vec<WriterId>> {
        let shared = self.shared_writer();
        Ok(self.writer()?.into_iter().chain(shared).collect())
    }

    /// Returns the writer id of `agent.writer`, which several machines may share.
    pub fn shared_writer(&self) -> Option<WriterId> {
        let fixed = self.repo.config_string("agent.writer");
        fixed.and_then(|fixed| fixed.parse().ok())
    }

    /// Returns this clone's writer id, if it has written anything yet.
    pub fn writer(&self) -> Result<Option<WriterId>> {
        let path = self.dir().join("writer");
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map(Some).map_err(|_| {
                Error::fatal(format!("'{}' does not contain a writer id", path.display()))
                    .hint("git agent doctor --fix")
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(Error::fatal(format!("cannot read '{}'", path.display())).because(error))
            }
        }
    }
}
