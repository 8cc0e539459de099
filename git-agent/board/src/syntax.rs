//! The colours of source code: which part of a line is a comment, a text, a keyword, a name.

use std::ops::Range;
use std::sync::OnceLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

/// Longer lines are shown without colours.
const LONGEST_LINE: usize = 2000;
/// Lines of one hunk that get colours.
pub const MOST_LINES: usize = 4000;

/// A kind of text in source code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// Anything else.
    Plain,
    /// A comment.
    Comment,
    /// A string.
    Text,
    /// A keyword or an operator word.
    Keyword,
    /// The name of a function.
    Function,
    /// The name of a type.
    Type,
    /// A number or another constant.
    Number,
}

/// The tokens of a line.
pub type Tokens = Vec<(Range<usize>, Token)>;

/// Whether a line of a hunk is on both sides of the change, or on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// On both.
    Both,
    /// Only before.
    Old,
    /// Only after.
    New,
}

/// Scopes by their beginnings; the first that fits the innermost scope counts.
const MEANINGS: [(&str, Token); 20] = [
    ("comment", Token::Comment),
    ("punctuation.definition.comment", Token::Comment),
    ("string", Token::Text),
    ("punctuation.definition.string", Token::Text),
    ("constant.character", Token::Number),
    ("constant", Token::Number),
    ("keyword.operator", Token::Plain),
    ("keyword", Token::Keyword),
    ("storage.type", Token::Keyword),
    ("storage", Token::Keyword),
    ("entity.name.function", Token::Function),
    ("support.function", Token::Function),
    ("variable.function", Token::Function),
    ("entity.name.tag", Token::Keyword),
    ("entity.name", Token::Type),
    ("entity.other.attribute-name", Token::Function),
    ("support.type", Token::Type),
    ("support.class", Token::Type),
    ("variable.language", Token::Keyword),
    ("markup.heading", Token::Function),
];

fn syntaxes() -> &'static SyntaxSet {
    static SET: OnceLock<SyntaxSet> = OnceLock::new();
    SET.get_or_init(two_face::syntax::extra_newlines)
}

fn meanings() -> &'static [(Scope, Token)] {
    static TABLE: OnceLock<Vec<(Scope, Token)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let scope = |(name, token): &(&str, Token)| Scope::new(name).ok().map(|s| (s, *token));
        MEANINGS.iter().filter_map(scope).collect()
    })
}

fn syntax_of(path: &str) -> Option<&'static SyntaxReference> {
    let set = syntaxes();
    let name = path.rsplit('/').next().unwrap_or(path);
    let by_name = set.find_syntax_by_extension(name);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    by_name.or_else(|| set.find_syntax_by_extension(extension?))
}

/// Returns the tokens of the lines of a hunk. The lines are safe text; those before and after the change are read apart.
pub fn hunk(path: &str, lines: &[(Sides, String)]) -> Vec<Tokens> {
    let Some(syntax) = syntax_of(path) else {
        return vec![Tokens::new(); lines.len()];
    };
    let mut old = Reader::new(syntax);
    let mut new = Reader::new(syntax);
    let tokens = lines.iter().enumerate().map(|(at, (sides, text))| {
        if at >= MOST_LINES || text.len() > LONGEST_LINE {
            return Tokens::new();
        }
        match sides {
            Sides::Old => old.line(text),
            Sides::New => new.line(text),
            Sides::Both => {
                old.line(text);
                new.line(text)
            }
        }
    });
    tokens.collect()
}

struct Reader {
    state: ParseState,
    scopes: ScopeStack,
}

impl Reader {
    fn new(syntax: &SyntaxReference) -> Self {
        Reader {
            state: ParseState::new(syntax),
            scopes: ScopeStack::new(),
        }
    }

    fn line(&mut self, text: &str) -> Tokens {
        let whole = format!("{text}\n");
        let Ok(changes) = self.state.parse_line(&whole, syntaxes()) else {
            return Tokens::new();
        };
        let mut tokens = Tokens::new();
        let mut from = 0;
        let mut add = |range: Range<usize>, token: Token| match tokens.last_mut() {
            _ if range.is_empty() || token == Token::Plain => {}
            Some((last, same)) if *same == token && last.end == range.start => last.end = range.end,
            _ => tokens.push((range, token)),
        };
        for (at, change) in changes {
            add(from..at.min(text.len()), meaning(&self.scopes));
            from = at.min(text.len());
            if self.scopes.apply(&change).is_err() {
                break;
            }
        }
        add(from..text.len(), meaning(&self.scopes));
        tokens
    }
}

fn meaning(scopes: &ScopeStack) -> Token {
    for scope in scopes.as_slice().iter().rev() {
        for (known, token) in meanings() {
            if known.is_prefix_of(*scope) {
                return *token;
            }
        }
    }
    Token::Plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(path: &str, text: &str, part: &str) -> Token {
        let tokens = hunk(path, &[(Sides::Both, text.to_owned())]);
        let at = text.find(part).expect("the part is in the text");
        let found = tokens[0].iter().find(|(range, _)| range.contains(&at));
        found.map_or(Token::Plain, |(_, token)| *token)
    }

    #[test]
    fn languages_are_known_by_their_files() {
        assert_eq!(token("a/b.rs", "fn main() {} // x", "fn"), Token::Keyword);
        assert_eq!(
            token("a/b.rs", "fn main() {} // x", "main"),
            Token::Function
        );
        assert_eq!(token("a/b.rs", "fn main() {} // x", "x"), Token::Comment);
        assert_eq!(token("x.py", "s = \"hello\"", "hello"), Token::Text);
        assert_eq!(token("x.ts", "const n = 42", "42"), Token::Number);
        assert_eq!(token("Cargo.toml", "a = 1", "1"), Token::Number);
        assert_eq!(token("unknown.zzz", "fn main", "fn"), Token::Plain);
    }

    #[test]
    fn both_sides_are_read_apart() {
        let lines = [
            (Sides::Old, "let a = \"begun;".to_owned()),
            (Sides::New, "let a = 1;".to_owned()),
            (Sides::New, "let b = 2;".to_owned()),
        ];
        let tokens = hunk("x.rs", &lines);
        assert!(tokens[2].iter().any(|(_, token)| *token == Token::Keyword));
    }
}
