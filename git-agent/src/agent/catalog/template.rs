//! Fills in command lines with placeholders, such as `tool --model {model} -- {prompt}`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::error::{Error, Result};

/// A placeholder and its value; `None` if it has no value.
pub type Value<'a> = (&'a str, Option<&'a OsStr>);

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];
/// Characters that need a shell if they are unquoted.
const SHELL_CHARACTERS: &str = "|&;<>()$`*?[]#~\n";

/// Fills in a command line.
///
/// A word whose placeholder has no value is left out with the option before it: both words of `--model {model}` go. The
/// script of a shell (`sh -c …`) is never filled in, because the inserted text would be executed; the script reads the
/// environment instead.
pub fn fill(words: &[OsString], values: &[Value<'_>]) -> Vec<OsString> {
    let script = script_index(words);
    let mut filled: Vec<OsString> = Vec::with_capacity(words.len());
    let mut option_before = false;
    for (index, word) in words.iter().enumerate() {
        if Some(index) == script {
            filled.push(word.clone());
            option_before = false;
            continue;
        }
        match fill_word(word.as_bytes(), values) {
            Filled::Plain => {
                option_before = index > 0 && word.as_bytes().starts_with(b"-") && word != "--";
                filled.push(word.clone());
            }
            Filled::With(bytes) => {
                option_before = false;
                filled.push(OsString::from_vec(bytes));
            }
            Filled::Nothing => {
                if std::mem::take(&mut option_before) {
                    filled.pop();
                }
            }
        }
    }
    filled
}

/// Returns whether a command line has this placeholder.
pub fn has(words: &[OsString], name: &str) -> bool {
    let place = format!("{{{name}}}");
    let script = script_index(words);
    words.iter().enumerate().any(|(index, word)| {
        Some(index) != script
            && word
                .as_bytes()
                .windows(place.len())
                .any(|window| window == place.as_bytes())
    })
}

enum Filled {
    Plain,
    With(Vec<u8>),
    Nothing,
}

fn fill_word(word: &[u8], values: &[Value<'_>]) -> Filled {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    let mut touched = false;
    while let Some(open) = rest.iter().position(|byte| *byte == b'{') {
        out.extend_from_slice(&rest[..open]);
        rest = &rest[open..];
        let found = values.iter().find_map(|(name, value)| {
            let after = rest.strip_prefix(b"{")?.strip_prefix(name.as_bytes())?;
            Some((after.strip_prefix(b"}")?, *value))
        });
        match found {
            Some((_, None)) => return Filled::Nothing,
            Some((after, Some(value))) => {
                out.extend_from_slice(value.as_bytes());
                rest = after;
                touched = true;
            }
            None => {
                out.push(b'{');
                rest = &rest[1..];
            }
        }
    }
    if !touched {
        return Filled::Plain;
    }
    out.extend_from_slice(rest);
    Filled::With(out)
}

/// Returns the index of the word that is a script for a shell.
fn script_index(words: &[OsString]) -> Option<usize> {
    let [program, option, _, ..] = words else {
        return None;
    };
    let name = std::path::Path::new(program).file_name()?.to_str()?;
    let option = option.to_str()?;
    (SHELLS.contains(&name) && option.starts_with('-') && option.contains('c')).then_some(2)
}

/// Splits a configured command into words like a shell; one that needs a shell becomes `sh -c`.
///
/// A placeholder in a command that needs a shell is refused, because the inserted text would be executed.
pub fn words(command: &str) -> Result<Vec<OsString>> {
    let (split, needs_shell) = split(command)?;
    if split.is_empty() {
        return Err(Error::usage("the command is empty"));
    }
    if !needs_shell {
        return Ok(split);
    }
    for name in ["prompt", "prompt_file", "session", "new_session", "model"] {
        if command.contains(&format!("{{{name}}}")) {
            return Err(Error::usage(format!(
                "'{command}' needs a shell, where {{{name}}} is not safe"
            ))
            .hint(
                "use \"$GIT_AGENT_PROMPT\", \"$GIT_AGENT_PROMPT_FILE\" or \"$GIT_AGENT_MODEL\" there",
            ));
        }
    }
    Ok(vec!["sh".into(), "-c".into(), command.into()])
}

/// Makes the script of a shell accept the arguments that are added later: at `"$@"`, or else at its end, like a git
/// alias.
pub fn pass_on(words: &mut Vec<OsString>) {
    let [_, _, script] = &words[..] else { return };
    if script_index(words).is_none() {
        return;
    }
    let says = |place: &str| {
        let mut places = script.as_bytes().windows(place.len());
        places.any(|window| window == place.as_bytes())
    };
    // A script that uses `$0` expects the first argument there.
    if says("$0") {
        return;
    }
    if !["$@", "$*", "${@", "${*"].into_iter().any(says) {
        words[2].push(" \"$@\"");
    }
    words.push("sh".into());
}

fn split(command: &str) -> Result<(Vec<OsString>, bool)> {
    let unclosed = || Error::usage(format!("'{command}' has an unclosed quote"));
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut needs_shell = false;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take().map(OsString::from)),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(unclosed)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(unclosed)? {
                        '"' => break,
                        '\\' => match chars.next().ok_or_else(unclosed)? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => {
                            needs_shell |= matches!(c, '$' | '`');
                            word.push(c);
                        }
                    }
                }
            }
            '\\' => word
                .get_or_insert_default()
                .push(chars.next().ok_or_else(unclosed)?),
            c => {
                needs_shell |= SHELL_CHARACTERS.contains(c);
                // An assignment before the program, as in `A=b tool`.
                needs_shell |= c == '=' && words.is_empty();
                word.get_or_insert_default().push(c);
            }
        }
    }
    words.extend(word.map(OsString::from));
    Ok((words, needs_shell))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(words: &[&str], values: &[(&str, Option<&str>)]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let values: Vec<Value<'_>> = values
            .iter()
            .map(|(name, value)| (*name, value.map(OsStr::new)))
            .collect();
        fill(&words, &values)
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn places_are_filled_once() {
        let values = [("prompt", Some("say {model} $(x)")), ("model", Some("m"))];
        assert_eq!(
            filled(
                &["t", "--m={model}", "--", "{prompt}", "{other}", "{"],
                &values
            ),
            ["t", "--m=m", "--", "say {model} $(x)", "{other}", "{"]
        );
    }

    #[test]
    fn an_option_without_a_value_is_left_out() {
        let values = [("prompt", Some("p")), ("model", None), ("session", None)];
        assert_eq!(
            filled(
                &[
                    "t",
                    "-v",
                    "--model",
                    "{model}",
                    "--resume={session}",
                    "--",
                    "{prompt}"
                ],
                &values
            ),
            ["t", "-v", "--", "p"]
        );
        assert_eq!(filled(&["t", "--", "{model}"], &values), ["t", "--"]);
        assert_eq!(filled(&["{model}"], &values), [""; 0]);
    }

    #[test]
    fn a_script_is_never_filled_in() {
        let values = [("prompt", Some("; rm -rf /"))];
        assert_eq!(
            filled(&["/bin/sh", "-ec", "echo {prompt}", "{prompt}"], &values),
            ["/bin/sh", "-ec", "echo {prompt}", "; rm -rf /"]
        );
    }

    #[test]
    fn words_that_are_added_reach_the_program_behind_a_shell() {
        let printed = |command: &str| {
            let mut words = words(command).expect("a command");
            pass_on(&mut words);
            words.extend(["-p", "a b"].map(OsString::from));
            let run = std::process::Command::new(&words[0])
                .args(&words[1..])
                .output();
            String::from_utf8(run.expect("it runs").stdout).expect("text")
        };
        for command in [
            "X=1 printf '<%s>'",
            "printf '<%s>' \"$@\" | cat",
            "printf '<%s>'",
            "printf '<%s>' \"$0\" \"$@\"",
        ] {
            assert_eq!(printed(command), "<-p><a b>", "{command}");
        }
        assert_eq!(printed("X='a b'; printf \"<$X>\"; true"), "<a b>");
    }

    #[test]
    fn commands_are_split_or_left_to_a_shell() {
        let split = |command: &str| -> Vec<String> {
            words(command)
                .expect("a command")
                .into_iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(
            split(r#"my\ tool  -x 'a $b' "c \"d\"" '' e=f"#),
            ["my tool", "-x", "a $b", "c \"d\"", "", "e=f"]
        );
        for command in ["a | b", "a > b", "X=1 a", "a $HOME", "a \"$X\"", "a; b"] {
            assert_eq!(split(command), ["sh", "-c", command]);
        }
        for bad in ["", "  ", "a 'b", "a \"b", "a \\", "a {prompt} | b"] {
            assert!(words(bad).is_err(), "{bad}");
        }
        assert_eq!(split("a {prompt}"), ["a", "{prompt}"]);
    }
}
