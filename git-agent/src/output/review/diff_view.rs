//! git's own diff with the open comments at their lines.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::thread::ScopedJoinHandle;

use crate::context::Context;
use crate::env::Env;
use crate::error::{Context as _, Result};
use crate::git::diff::Stream;
use crate::git::{Git, ObjectId, Repo};
use crate::listing::urgency;
use crate::model::review::Review;
use crate::output::review::emphasis::marked;
use crate::output::review::threads::Look;
use crate::output::review::weave::{Manner, Weaver};
use crate::output::review::{diff_files, early_diff, left_out};
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::{Slot, When};
use crate::output::{Format, Ui, cannot_write};
use crate::review::anchors::{self, Placed, Spot};
use crate::review::diff_scope::{self, Scope};
use crate::review::diff_text::outline::Outline;
use crate::review::{last_seen, records};
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::Store;
use crate::store::list::Listed;
use crate::store::notes::Texts;

/// Pagers that emphasise changes within a line themselves.
const CLEVER_PAGERS: [&str; 4] = ["delta", "diff-so-fancy", "diff-highlight", "riff"];

/// All that was said, while it is fetched by another thread; nothing where it is not asked for.
pub(crate) type Gathering<'s> = Option<ScopedJoinHandle<'s, Result<Texts>>>;

/// The trees that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trees {
    pub(crate) old: ObjectId,
    pub(crate) new: ObjectId,
    /// Where the work begins: attributes are read from there, because an agent could hide its lines with its own.
    pub(crate) attributes: ObjectId,
}

/// The shown part of a session's work, and its format.
#[derive(Debug, Clone, Default)]
pub struct DiffOptions {
    /// The part.
    pub scope: Scope,
    /// Only how many lines changed in each file.
    pub stat: bool,
    /// Only the names of the files.
    pub name_only: bool,
    /// Changed words within lines.
    pub word_diff: bool,
    /// Without the comments.
    pub no_comments: bool,
    /// With resolved comments.
    pub resolved: bool,
    /// The wish about colours, if there is one.
    pub color: Option<When>,
    /// Only these paths, as seen from the top of the worktree.
    pub paths: Vec<OsString>,
}

impl DiffOptions {
    /// Returns whether all that was not seen before is shown.
    fn shows_all_news(&self) -> bool {
        matches!(self.scope, Scope::Branch | Scope::SinceReview)
            && !self.stat
            && !self.name_only
            && self.paths.is_empty()
    }
}

/// A diff on its way to the user.
#[derive(Clone, Copy)]
pub(crate) struct DiffView<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) ui: &'a Ui,
    pub(crate) options: &'a DiffOptions,
}

/// Shows a session's work, for a person or a program. `select` finds the session: meanwhile the comments are fetched, which
/// takes a while and is the same for every session.
pub fn show(
    context: &Context<'_>,
    ui: &Ui,
    options: &DiffOptions,
    select: impl FnOnce() -> Result<Listed>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let gathering = (!options.no_comments).then(|| {
            let (env, repo) = (context.env, context.repo.clone());
            scope.spawn(move || records::gather(&Store::new(env, &repo)))
        });
        let view = DiffView {
            context,
            ui,
            options,
        };
        view.run(&select()?, gathering)
    })
}

impl<'a> DiffView<'a> {
    fn run(&self, listed: &Listed, gathering: Gathering<'_>) -> Result<()> {
        let (context, ui, options) = (self.context, self.ui, self.options);
        let human = ui.format() == Format::Human;
        if human && !listed.is_mine() && listed.session.unshared().is_some() {
            let name = one_line(&listed.session.name);
            ui.warning(format!("'{name}' {}", urgency::UNSHARED));
        }
        let work = if human && options.scope == Scope::Branch {
            let work = early_diff::show(self, listed, gathering)?;
            if options.paths.is_empty() && work.tree == context.repo.tree_of(work.base)? {
                ui.narrate("no changes");
            }
            work
        } else {
            let (work, review) = self.look(listed, gathering)?;
            let compared = diff_scope::compared(context, listed, &work, options.scope)?;
            let placed = self.placed(&work, &review)?;
            if !human {
                return diff_files::write(context, ui, &options.paths, &compared, &placed);
            }
            if let Some(note) = &compared.note {
                ui.narrate(note);
            }
            left_out::warn(context, ui, &work);
            let trees = Trees {
                old: compared.old,
                new: compared.new,
                attributes: context.repo.tree_of(work.base)?,
            };
            self.show(trees, self.program(trees, &[])?.stream()?, &placed)?;
            if trees.old == trees.new {
                ui.narrate("no changes");
            }
            work
        };
        if options.shows_all_news() {
            last_seen::remember_shown(context, listed.session.sid, &work)?;
        }
        Ok(())
    }

    /// Looks at the files while the review is read.
    fn look(&self, listed: &Listed, gathering: Gathering<'_>) -> Result<(Work, Review)> {
        // Reading a review takes many small pieces of memory, which are cheapest in the first thread.
        std::thread::scope(|scope| {
            let (env, repo) = (self.context.env, self.context.repo.clone());
            let looking = scope.spawn(move || look_apart(env, &repo, listed));
            let review = self.said(listed, gathering)?;
            let work = looking
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((work, review))
        })
    }

    /// Returns git's diff of two trees, as it is asked for, without some files that were shown already.
    pub fn program(&self, trees: Trees, shown: &[&[u8]]) -> Result<Git> {
        let (options, ui) = (self.options, self.ui);
        let mut arguments = vec![if self.is_colored() {
            "--color=always"
        } else {
            "--color=never"
        }];
        let stat = format!("--stat={}", ui.width());
        if options.stat {
            arguments.push(&stat);
        } else if options.name_only {
            arguments.push("--name-only");
        } else {
            arguments.extend(["--patch-with-raw", "--no-abbrev"]);
        }
        if options.word_diff {
            arguments.push("--word-diff");
        }
        // A program may apply the diff that it reads.
        if options.no_comments && ui.table_width().is_none() && !options.word_diff {
            arguments.push("--binary");
        }
        self.diff(trees, &arguments, shown)
    }

    fn diff(&self, trees: Trees, options: &[&str], shown: &[&[u8]]) -> Result<Git> {
        let repo = self.context.repo;
        let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        // Renames are found unless the user said otherwise, however old git's own default is.
        if repo.config_string("diff.renames").is_none() {
            options.push("-M".to_owned());
        }
        let mut paths = self.options.paths.clone();
        paths.extend(
            shown.iter().map(|path| {
                OsString::from_vec([b":(top,exclude,literal)".as_slice(), path].concat())
            }),
        );
        let pair = (trees.old, trees.new);
        let git = repo.diff_program(trees.attributes, pair, &options, &paths)?;
        let git = if self.is_colored() { marked(git) } else { git };
        Ok(if shown.is_empty() {
            git
        } else {
            // Otherwise these exclusions would be names of files.
            git.env_remove("GIT_LITERAL_PATHSPECS")
        })
    }

    fn is_colored(&self) -> bool {
        let configured = self.context.repo.config_string("color.diff");
        let configured = configured.and_then(|value| When::from_config(&value));
        // As in git an option beats the configuration, and 'always' means pipes too.
        match self.options.color.or(configured) {
            Some(When::Always) => true,
            Some(When::Never) => false,
            _ => self.ui.palette().is_colored(),
        }
    }

    fn is_summary(&self) -> bool {
        self.options.stat || self.options.name_only
    }

    /// Shows git's diff of two trees with the threads that hang in it.
    pub fn show(&self, trees: Trees, stream: Stream, placed: &[Placed<'_>]) -> Result<()> {
        let mut weaver = self.begin(trees, placed)?;
        stream.lines(&mut |line| self.line(&mut weaver, line).map(|()| true))?;
        self.finish(weaver, placed)
    }

    /// Reads the review of a session, if comments are asked for.
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
        placed.retain(|placed| self.options.resolved || placed.thread.is_open());
        Ok(placed)
    }

    /// Begins to show the diff of two trees: with the comments on the session as a whole.
    pub fn begin<'p, 'r>(&self, trees: Trees, placed: &'p [Placed<'r>]) -> Result<Weaver<'p, 'r>>
    where
        'a: 'p,
    {
        let (context, options) = (self.context, self.options);
        let colored = self.is_colored();
        let manner = Manner {
            on_screen: self.ui.table_width().is_some(),
            colored,
            emphasis: colored && !options.word_diff && !has_clever_pager(context),
            words: options.word_diff,
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
        if options.word_diff && !paths.is_empty() {
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
        if self.is_summary() {
            weaver.plain(line)
        } else {
            weaver.line(line)
        }
    }

    /// Ends the diff.
    pub fn finish(&self, mut weaver: Weaver<'_, '_>, placed: &[Placed<'_>]) -> Result<()> {
        if self.is_summary() {
            return Ok(());
        }
        // Comments outside of the shown part are left out.
        if !self.options.paths.is_empty() || self.options.scope != Scope::Branch {
            return weaver.end();
        }
        weaver.finish()?;
        self.outdated(placed)
    }

    /// Writes the comments on code that is gone.
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

/// Looks at the files from another thread.
pub(crate) fn look_apart(env: &Env, repo: &Repo, listed: &Listed) -> Result<Work> {
    let context = Context::new(env, repo)?;
    work::look(&context, listed, Keep::Nothing)
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
