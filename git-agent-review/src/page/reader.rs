//! Reading a page back, line by line: what was typed, and what it belongs to.

use git_agent::session::anchors::Pointed;

use super::{
    HEADING, Meaning, Mistake, NO_ANSWER, NO_BOX, NO_FILE, NO_LINE, NO_PLACE, NO_THREAD, Named,
    Page, Wish, is_mark, is_ours,
};

/// What typed text belongs to.
enum Target {
    At(Option<Pointed>),
    Thread(Named),
    Gone,
    Nothing,
}

pub(super) struct Reader<'p> {
    page: &'p Page,
    next: usize,
    target: Target,
    typed: Vec<(usize, String)>,
    wishes: Vec<Wish>,
}

impl<'p> Reader<'p> {
    pub(super) fn new(page: &'p Page) -> Self {
        Reader {
            page,
            next: 0,
            target: Target::At(None),
            typed: Vec::new(),
            wishes: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> Result<Vec<Wish>, Mistake> {
        self.settle()?;
        Ok(self.wishes)
    }

    pub(super) fn line(&mut self, number: usize, line: &str) -> Result<(), Mistake> {
        let mistake = |what: String| Mistake { line: number, what };
        if is_ours(line) || is_mark(line) {
            return Ok(());
        }
        if line.starts_with('|') {
            self.settle()?;
            let bar = line.trim_end();
            let coming = &self.page.bars[self.next..];
            let mut fitting = (0..coming.len()).filter(|at| coming[*at].0 == bar);
            let Some(found) = fitting.next() else {
                return Err(mistake(NO_LINE.to_owned()));
            };
            // In another file than the last line, whose name was taken away: nobody knows in which.
            let unnamed = coming[..found]
                .iter()
                .any(|(known, _)| known.starts_with(HEADING));
            if unnamed && !bar.starts_with(HEADING) && fitting.next().is_some() {
                return Err(mistake(NO_FILE.to_owned()));
            }
            self.next += found + 1;
            self.target = match &self.page.bars[self.next - 1].1 {
                Meaning::At(at) => Target::At(Some(at.clone())),
                Meaning::Nothing => Target::Nothing,
            };
            return Ok(());
        }
        if let Some((mark, rest)) = boxed(line) {
            let name = rest.split(' ').next().unwrap_or_default();
            if let Some(named) = self.page.threads.get(name) {
                self.settle()?;
                match mark {
                    ' ' => {}
                    'x' | 'X' => self.wishes.push(Wish::Resolve(named.id)),
                    other => {
                        return Err(mistake(format!("'[{other}]' {NO_BOX}")));
                    }
                }
                self.target = Target::Thread(named.clone());
                return Ok(());
            }
            if self.page.gone.contains(name) {
                self.settle()?;
                self.target = Target::Gone;
                return Ok(());
            }
        }
        // What the page says itself; whatever else is quoted was typed.
        if self.page.quoted.contains(line.trim_end())
            && matches!(self.target, Target::Thread(_) | Target::Gone)
            && self.is_blank()
        {
            return Ok(());
        }
        if matches!(self.target, Target::Nothing) && !line.trim().is_empty() {
            return Err(mistake(NO_PLACE.to_owned()));
        }
        if matches!(self.target, Target::Gone) && !line.trim().is_empty() {
            return Err(mistake(NO_THREAD.to_owned()));
        }
        self.typed.push((number, line.to_owned()));
        Ok(())
    }

    fn is_blank(&self) -> bool {
        self.typed.iter().all(|(_, line)| line.trim().is_empty())
    }

    /// Makes a wish of what was typed so far.
    fn settle(&mut self) -> Result<(), Mistake> {
        let typed = std::mem::take(&mut self.typed);
        let text: Vec<&str> = typed.iter().map(|(_, line)| line.as_str()).collect();
        let text = text.join("\n").trim().to_owned();
        if text.is_empty() {
            return Ok(());
        }
        match &self.target {
            Target::At(at) => self.wishes.push(Wish::Comment(at.clone(), text)),
            // A line of the thread that was changed by mistake is no answer to it.
            Target::Thread(_) if is_quote_alone(&text) => {
                let filled = typed.iter().find(|(_, line)| !line.trim().is_empty());
                return Err(Mistake {
                    line: filled.map_or(0, |(number, _)| *number),
                    what: NO_ANSWER.to_owned(),
                });
            }
            Target::Thread(named) => self.wishes.push(Wish::Reply(named.clone(), text)),
            Target::Gone | Target::Nothing => {}
        }
        Ok(())
    }
}

fn is_quote_alone(text: &str) -> bool {
    text.lines()
        .all(|line| line.trim().is_empty() || line.starts_with('>'))
}

/// Splits `[x] rest`.
pub(super) fn boxed(line: &str) -> Option<(char, &str)> {
    let inner = line.strip_prefix('[')?;
    let mut characters = inner.chars();
    let mark = characters.next()?;
    let rest = characters.as_str().strip_prefix("] ")?;
    Some((mark, rest))
}
