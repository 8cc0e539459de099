//! A diff as a person sees it: git's own, with the open comments in their places.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::thread::ScopedJoinHandle;

use git_agent::context::Context;
use git_agent::error::{Context as _, Result};
use git_agent::git::diff::Stream;
use git_agent::git::{Git, ObjectId};
use git_agent::model::review::Review;
use git_agent::output::terminal::style::{Slot, When};
use git_agent::output::{Ui, cannot_write};
use git_agent::review::anchors::{self, Placed, Spot};
use git_agent::review::diff_scope::Scope;
use git_agent::review::records;
use git_agent::session::worktree::work::Work;
use git_agent::store::list::Listed;
use git_agent::store::notes::Texts;

use crate::diff::Diff;
use crate::emphasis::marked;
use crate::outline::Outline;
use crate::threads::Look;
use crate::weave::{Manner, Weaver};

/// Pagers that find what changed within a line by themselves.
const CLEVER_PAGERS: [&str; 4] = ["delta", "diff-so-fancy", "diff-highlight", "riff"];

/// All that was said, while it is fetched by another thread; nothing where it is not asked for.
pub type Gathering<'s> = Option<ScopedJoinHandle<'s, Result<Texts>>>;

/// The trees that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trees {
    pub old: ObjectId,
    pub new: ObjectId,
    /// Where the work begins: attributes are read from there, because an agent could hide its lines with its own.
    pub attributes: ObjectId,
}

/// What is shown, to whom, and how.
#[derive(Clone, Copy)]
pub struct Screen<'a> {
    pub context: &'a Context<'a>,
    pub ui: &'a Ui,
    pub args: &'a Diff,
}

impl<'a> Screen<'a> {
    /// Returns git's diff of two trees, as it is asked for, without some files that were shown already.
    pub fn program(&self, trees: Trees, shown: &[&[u8]]) -> Result<Git> {
        let (args, ui) = (self.args, self.ui);
        let mut options = vec![match self.is_colored() {
            true => "--color=always",
            false => "--color=never",
        }];
        let stat = format!("--stat={}", ui.width());
        if args.stat {
            options.push(&stat);
        } else if args.name_only {
            options.push("--name-only");
        } else {
            options.extend(["--patch-with-raw", "--no-abbrev"]);
        }
        if args.word_diff {
            options.push("--word-diff");
        }
        // What is read by a program may be applied.
        if args.no_comments && ui.table_width().is_none() && !args.word_diff {
            options.push("--binary");
        }
        self.diff(trees, &options, shown)
    }

    fn diff(&self, trees: Trees, options: &[&str], shown: &[&[u8]]) -> Result<Git> {
        let repo = self.context.repo;
        let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        // Renames are found unless the user said otherwise, however old git's own default is.
        if repo.config_string("diff.renames").is_none() {
            options.push("-M".to_owned());
        }
        let mut paths = self.args.paths(self.context);
        paths.extend(
            shown.iter().map(|path| {
                OsString::from_vec([b":(top,exclude,literal)".as_slice(), path].concat())
            }),
        );
        let pair = (trees.old, trees.new);
        let git = repo.diff_program(trees.attributes, pair, &options, &paths)?;
        let git = match self.is_colored() {
            true => marked(git),
            false => git,
        };
        Ok(match shown.is_empty() {
            true => git,
            // Otherwise what was just said would be names of files.
            false => git.env_remove("GIT_LITERAL_PATHSPECS"),
        })
    }

    fn is_colored(&self) -> bool {
        let configured = self.context.repo.config_string("color.diff");
        let configured = configured.and_then(|value| When::from_config(&value));
        // As in git an option beats the configuration, and 'always' means pipes too.
        match self.args.color().or(configured) {
            Some(When::Always) => true,
            Some(When::Never) => false,
            _ => self.ui.palette().is_colored(),
        }
    }

    fn is_summary(&self) -> bool {
        self.args.stat || self.args.name_only
    }

    /// Shows git's diff of two trees with the threads that hang in it.
    pub fn show(&self, trees: Trees, stream: Stream, placed: &[Placed<'_>]) -> Result<()> {
        let mut weaver = self.begin(trees, placed)?;
        stream.lines(&mut |line| self.line(&mut weaver, line).map(|()| true))?;
        self.finish(weaver, placed)
    }

    /// Reads what was said about a session, if that is asked for.
    pub fn said(&self, listed: &Listed, gathering: Gathering<'_>) -> Result<Review> {
        let Some(gathering) = gathering else {
            return Ok(Review::default());
        };
        let gathered = gathering
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        records::understand(self.context, gathered, listed.session.sid)
    }

    /// Finds the places of the threads that are asked for.
    pub fn placed<'r>(&self, work: &Work, review: &'r Review) -> Result<Vec<Placed<'r>>> {
        let mut placed = anchors::place_all(self.context, work, review)?;
        placed.retain(|placed| self.args.resolved || placed.thread.is_open());
        Ok(placed)
    }

    /// Begins to show the diff of two trees: with what is about the session as a whole.
    pub fn begin<'p, 'r>(&self, trees: Trees, placed: &'p [Placed<'r>]) -> Result<Weaver<'p, 'r>>
    where
        'a: 'p,
    {
        let (context, args) = (self.context, self.args);
        let colored = self.is_colored();
        let manner = Manner {
            on_screen: self.ui.table_width().is_some(),
            colored,
            emphasis: colored && !args.word_diff && !has_clever_pager(context),
            words: args.word_diff,
        };
        let mut weaver = Weaver::new(context, self.ui, placed, manner);
        if self.is_summary() {
            return Ok(weaver);
        }
        let paths = paths_of(placed);
        weaver.set_converted(match context.env.var_os("GIT_EXTERNAL_DIFF") {
            Some(program) if !program.is_empty() => {
                paths.iter().map(|path| path.to_vec()).collect()
            }
            _ => context.repo.shown_converted(trees.attributes, &paths)?,
        });
        if args.word_diff && !paths.is_empty() {
            // The same with a sign before every line.
            let signed = self.diff(trees, &["--color=never", "--word-diff=none"], &[])?;
            weaver.set_outline(Outline::read(signed)?);
        }
        let is_general =
            |placed: &&Placed<'_>| matches!(placed.spot, Spot::Session | Spot::Event(_));
        self.write_blocks(placed.iter().filter(is_general))?;
        Ok(weaver)
    }

    /// Shows the next line of git's diff.
    pub fn line(&self, weaver: &mut Weaver<'_, '_>, line: &[u8]) -> Result<()> {
        match self.is_summary() {
            true => weaver.plain(line),
            false => weaver.line(line),
        }
    }

    /// Ends the diff.
    pub fn finish(&self, mut weaver: Weaver<'_, '_>, placed: &[Placed<'_>]) -> Result<()> {
        if self.is_summary() {
            return Ok(());
        }
        // Only a part is shown: what hangs elsewhere has no place in it.
        if !self.args.paths.is_empty() || self.args.scope() != Scope::Branch {
            return weaver.end();
        }
        weaver.finish()?;
        self.outdated(placed)
    }

    /// Writes what is about code that is not there any more.
    fn outdated(&self, placed: &[Placed<'_>]) -> Result<()> {
        let mut old = placed
            .iter()
            .filter(|placed| placed.spot == Spot::Outdated)
            .peekable();
        if old.peek().is_some() {
            let heading = self.ui.palette().paint(Slot::Header, "outdated comments");
            writeln!(self.ui.out(), "\n{heading}").context(cannot_write)?;
        }
        self.write_blocks(old)
    }

    fn write_blocks<'p, 'r: 'p>(&self, placed: impl Iterator<Item = &'p Placed<'r>>) -> Result<()> {
        let look = Look {
            palette: self.ui.palette(),
            now: self.context.env.now(),
        };
        for placed in placed {
            let text = look.block(placed, Some(&Look::place(placed)));
            let mut out = self.ui.out();
            out.write_all(text.as_bytes()).context(cannot_write)?;
        }
        Ok(())
    }
}

/// Returns the files that threads hang on.
fn paths_of<'p>(placed: &'p [Placed<'_>]) -> Vec<&'p [u8]> {
    let mut paths: Vec<&[u8]> = placed.iter().filter_map(|placed| placed.path()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn has_clever_pager(context: &Context<'_>) -> bool {
    let pager = context
        .env
        .var("GIT_PAGER")
        .map(str::to_owned)
        .or_else(|| context.repo.config_string("core.pager"))
        .unwrap_or_default();
    CLEVER_PAGERS.iter().any(|name| pager.contains(name))
}
