//! Reading a form back, line by line: the typed text, and the line or thread it belongs to.

use crate::review::anchors::Pointed;
use crate::review::diff_text::form::{
    Form, HEADING, Meaning, Mistake, NO_ANSWER, NO_BOX, NO_FILE, NO_LINE, NO_PLACE, NO_THREAD,
    Named, Wish, is_mark, is_ours, quotes,
};

/// The target of typed text.
enum Target {
    At(Option<Pointed>),
    Thread(Named),
    Gone,
    Nothing,
}

pub(super) struct Reader<'p> {
    form: &'p Form,
    next: usize,
    target: Target,
    /// Which of the threads that the form showed the target is.
    shown: Option<usize>,
    /// The lines under the target.
    lines: Vec<(usize, String)>,
    wishes: Vec<Wish>,
}

impl<'p> Reader<'p> {
    pub(super) fn new(form: &'p Form) -> Self {
        Reader {
            form,
            next: 0,
            target: Target::At(None),
            shown: None,
            lines: Vec::new(),
            wishes: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> Result<Vec<Wish>, Mistake> {
        self.settle(None)?;
        Ok(self.wishes)
    }

    pub(super) fn line(&mut self, number: usize, line: &str) -> Result<(), Mistake> {
        let mistake = |what: String| Mistake { line: number, what };
        if is_ours(line) || is_mark(line) {
            return Ok(());
        }
        if line.starts_with('|') {
            self.settle(None)?;
            let bar = line.trim_end();
            let coming = &self.form.bars[self.next..];
            let mut fitting = (0..coming.len()).filter(|at| coming[*at].0 == bar);
            let Some(found) = fitting.next() else {
                return Err(mistake(NO_LINE.to_owned()));
            };
            // In another file than the last line, whose name was taken away: it cannot be known in which.
            let unnamed = coming[..found]
                .iter()
                .any(|(known, _)| known.starts_with(HEADING));
            if unnamed && !bar.starts_with(HEADING) && fitting.next().is_some() {
                return Err(mistake(NO_FILE.to_owned()));
            }
            self.next += found + 1;
            self.target = match &self.form.bars[self.next - 1].1 {
                Meaning::At(at) => Target::At(Some(at.clone())),
                Meaning::Nothing => Target::Nothing,
            };
            return Ok(());
        }
        if let Some((mark, rest)) = boxed(line) {
            let name = rest.split(' ').next().unwrap_or_default();
            let mut threads = self.form.shown.iter();
            let shown = threads.position(|thread| thread.name == name);
            if let Some(named) = self.form.threads.get(name) {
                self.settle(shown)?;
                match mark {
                    ' ' => {}
                    'x' | 'X' => self.wishes.push(Wish::Resolve(named.id)),
                    other => {
                        return Err(mistake(format!("'[{other}]' {NO_BOX}")));
                    }
                }
                self.target = Target::Thread(named.clone());
                self.shown = shown;
                return Ok(());
            }
            if self.form.gone.contains(name) {
                self.settle(shown)?;
                self.target = Target::Gone;
                self.shown = shown;
                return Ok(());
            }
        }
        self.lines.push((number, line.to_owned()));
        Ok(())
    }

    /// Returns the typed lines under the target, and the number of the first one. `next` is the following thread.
    fn typed(&mut self, next: Option<usize>) -> Option<(usize, String)> {
        let lines = std::mem::take(&mut self.lines);
        let shown = match self.shown.take() {
            Some(at) => quotes::under(&self.form.shown, at, next),
            None => quotes::boxless(&self.form.shown, self.next, next),
        };
        let plain: Vec<&str> = lines.iter().map(|(_, line)| line.trim_end()).collect();
        let mut first = None;
        let mut typed: Vec<&str> = Vec::new();
        for ((number, line), is_own) in lines.iter().zip(quotes::own(&plain, &shown)) {
            if !is_own {
                if !line.trim().is_empty() {
                    first = first.or(Some(*number));
                }
                typed.push(line);
            } else if typed.last().is_some_and(|line| !line.trim().is_empty()) {
                // Text typed above and below the form's own words stays apart.
                typed.push("");
            }
        }
        first.map(|number| (number, typed.join("\n").trim().to_owned()))
    }

    /// Makes a wish of the text typed so far; `next` is the thread that comes next.
    fn settle(&mut self, next: Option<usize>) -> Result<(), Mistake> {
        let Some((line, text)) = self.typed(next) else {
            return Ok(());
        };
        let mistake = |what: &str| Mistake {
            line,
            what: what.to_owned(),
        };
        match &self.target {
            Target::At(at) => self.wishes.push(Wish::Comment(at.clone(), text)),
            // A line of the thread that was changed by mistake is not an answer to it.
            Target::Thread(_) if is_quote_alone(&text) => {
                return Err(mistake(NO_ANSWER));
            }
            Target::Thread(named) => self.wishes.push(Wish::Reply(named.clone(), text)),
            Target::Gone => return Err(mistake(NO_THREAD)),
            Target::Nothing => return Err(mistake(NO_PLACE)),
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
