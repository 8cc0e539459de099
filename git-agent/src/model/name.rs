//! Names of sessions: made from the task, and safe as part of a branch, as a directory and as an argument.

use crate::error::{Error, Result};

/// The longest name made from a task, in characters: it is typed, and has its place in a table.
const MADE: usize = 20;
/// The longest name that a user may choose, in characters.
const CHOSEN: usize = 64;
/// Words that do not distinguish tasks.
const FILLERS: [&str; 16] = [
    "a", "an", "the", "to", "of", "in", "on", "for", "and", "or", "with", "that", "this", "please",
    "it", "is",
];

/// Letters outside ASCII, and how they are written within it.
const LETTERS: [(&str, &str); 27] = [
    ("àáâãåāăąǎạảấầẩẫậắằẳẵặ", "a"),
    ("æä", "ae"),
    ("çćĉċč", "c"),
    ("ďđð", "d"),
    ("èéêëēĕėęěẹẻẽếềểễệ", "e"),
    ("ĝğġģ", "g"),
    ("ĥħ", "h"),
    ("ìíîïĩīĭįıǐịỉ", "i"),
    ("ĵ", "j"),
    ("ķ", "k"),
    ("ĺļľŀł", "l"),
    ("ñńņňŋ", "n"),
    ("òóôõøōŏőǒọỏốồổỗộơớờởỡợ", "o"),
    ("öœ", "oe"),
    ("ŕŗř", "r"),
    ("śŝşšș", "s"),
    ("ß", "ss"),
    ("ţťŧț", "t"),
    ("þ", "th"),
    ("ùúûũūŭůűųǔụủưứừửữự", "u"),
    ("ü", "ue"),
    ("ŵ", "w"),
    ("ýÿŷỳỵỷỹ", "y"),
    ("źżž", "z"),
    // Written apart from their letter.
    ("\u{308}", "e"),
    ("\u{300}\u{301}\u{302}\u{303}\u{304}\u{306}\u{307}", ""),
    ("\u{30a}\u{30b}\u{30c}\u{323}\u{327}\u{328}\u{31b}", ""),
];

/// The words of a name for a task that has no letter for one.
const FIRST: [&str; 16] = [
    "bold", "brave", "bright", "calm", "clear", "cool", "fair", "fast", "fresh", "kind", "light",
    "quick", "quiet", "sharp", "warm", "wise",
];
const SECOND: [&str; 16] = [
    "brook", "cloud", "field", "forest", "garden", "harbor", "hill", "lake", "meadow", "moon",
    "ocean", "river", "stone", "sun", "valley", "wind",
];

/// Makes a name from a task: its significant words, in lower case, joined by dashes. Letters with marks are written
/// without them; a task in a script without such letters gets two words that are the same every time.
pub fn from_task(task: &str) -> String {
    let line = task
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let words: Vec<String> = line
        .split(|c: char| !c.is_alphanumeric() && !is_mark(c))
        .map(in_ascii)
        .filter(|word| !word.is_empty())
        .collect();
    let telling: Vec<&String> = words
        .iter()
        .filter(|word| !FILLERS.contains(&word.as_str()))
        .collect();
    let chosen: Vec<&String> = if telling.is_empty() {
        words.iter().collect()
    } else {
        telling
    };
    let mut name = String::new();
    for word in chosen {
        if !name.is_empty() && name.len() + 1 + word.len() > MADE {
            break;
        }
        if !name.is_empty() {
            name.push('-');
        }
        name.extend(word.chars().take(MADE));
    }
    if name.is_empty() {
        made_up(line)
    } else if is_reserved(&name) {
        format!("{name}-task")
    } else {
        name
    }
}

/// Returns a word in lower case and in the letters of ASCII; the others are left out.
fn in_ascii(word: &str) -> String {
    let mut text = String::new();
    for letter in word.chars().flat_map(char::to_lowercase) {
        if letter.is_ascii_alphanumeric() {
            text.push(letter);
        } else if let Some(written) = written(letter) {
            text.push_str(written);
        }
    }
    text
}

fn written(letter: char) -> Option<&'static str> {
    let (_, written) = LETTERS
        .iter()
        .find(|(letters, _)| letters.contains(letter))?;
    Some(written)
}

/// Returns whether a character is a mark that belongs to the letter before it.
fn is_mark(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

/// Returns two plain words for a text. They depend on nothing but the text.
fn made_up(text: &str) -> String {
    let hash = text.trim().bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let word = |words: &[&'static str; 16], shift: u32| {
        let at = (hash >> shift) as usize % words.len();
        words[at]
    };
    format!("{}-{}", word(&FIRST, 8), word(&SECOND, 20))
}

/// Checks a name that the user chose.
pub fn check(name: &str) -> Result<()> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let valid = bytes.len() <= CHOSEN
        && bytes.iter().all(|byte| inside(*byte))
        && edge(bytes.first())
        && edge(bytes.last())
        && !name.contains("..")
        && !name.ends_with(".lock");
    let refused = || Error::usage(format!("'{name}' is not a valid session name"));
    if valid && is_reserved(name) {
        return Err(refused().hint(format!(
            "some systems reserve '{name}' for a device; try {name}-1"
        )));
    }
    if valid {
        return Ok(());
    }
    Err(refused()
        .hint("use letters, digits, '-', '_' and '.', at most 64 of them")
        .hint("start and end with a letter or a digit; avoid '..' and a final '.lock'"))
}

/// Returns whether some systems reserve a name for a device, with or without an extension.
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let stem = stem.to_ascii_lowercase();
    let numbered = ["com", "lpt"].iter().any(|kind| {
        let number = stem.strip_prefix(kind).map(str::as_bytes);
        matches!(number, Some([digit]) if digit.is_ascii_digit())
    });
    numbered || ["con", "prn", "aux", "nul"].contains(&stem.as_str())
}

/// Returns the name, or the first of `name-2`, `name-3`, … that is free.
pub fn make_unique(name: &str, mut taken: impl FnMut(&str) -> bool) -> String {
    if !taken(name) {
        return name.to_owned();
    }
    (2..)
        .map(|number: u64| format!("{name}-{number}"))
        .find(|candidate| !taken(candidate))
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_tell_the_task() {
        assert_eq!(from_task("Add a wipe command"), "add-wipe-command");
        assert_eq!(
            from_task("fix the CI (issue #42), please"),
            "fix-ci-issue-42"
        );
        assert_eq!(from_task("  \n\tthe \n"), "the");
        assert_eq!(from_task(&"x".repeat(500)).len(), 20);
        assert_eq!(from_task("con"), "con-task");
    }

    #[test]
    fn names_are_short_and_of_whole_words() {
        let name = from_task("refactor the configuration loader of the command line");
        assert_eq!(name, "refactor");
        let name = from_task("make every error of the shop say what to do next");
        assert_eq!(name, "make-every-error");
    }

    #[test]
    fn letters_with_marks_are_written_without_them() {
        for (task, name) in [
            ("Füge einen Löschbefehl hinzu", "fuege-einen"),
            ("Größe ändern", "groesse-aendern"),
            ("ajoute un résumé", "ajoute-un-resume"),
            ("cafe\u{301} fu\u{308}r", "cafe-fuer"),
            ("přidej łódź", "pridej-lodz"),
            ("README を更新", "readme"),
        ] {
            assert_eq!(from_task(task), name, "{task}");
        }
    }

    #[test]
    fn a_task_in_another_script_gets_a_readable_name() {
        let (one, other) = (from_task("日本語だけ"), from_task("検索を直す"));
        assert_eq!(one, from_task(" 日本語だけ\n"));
        assert_ne!(one, other);
        for name in [one, other] {
            let (first, second) = name.split_once('-').expect("two words");
            assert!(FIRST.contains(&first) && SECOND.contains(&second), "{name}");
        }
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let taken = ["a", "a-2"];
        assert_eq!(make_unique("a", |name| taken.contains(&name)), "a-3");
        assert_eq!(make_unique("b", |name| taken.contains(&name)), "b");
    }

    #[test]
    fn names_of_devices_are_refused_in_words() {
        for name in ["con", "AUX", "nul", "com1", "lpt9", "con.txt"] {
            let error = check(name).expect_err("refused");
            assert!(error.hints()[0].contains("for a device"), "{name}");
        }
        for name in ["console", "com", "com10", "null", "x-con"] {
            assert!(check(name).is_ok(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_made_name_is_valid(task in "\\PC{0,120}") {
            prop_assert!(check(&from_task(&task)).is_ok());
        }

        #[test]
        fn no_chosen_name_is_dangerous(name in "[-./a-z@{~^: \\\\]{1,12}") {
            if check(&name).is_ok() {
                prop_assert!(!name.starts_with('-') && !name.contains('/') && !name.contains(".."));
            }
        }
    }
}
