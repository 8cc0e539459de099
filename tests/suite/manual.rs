//! The manual: a page for every program and format, found by git, in step with what `-h` says.

use std::collections::BTreeSet;
use std::fs;

use git_agent_tests::Sandbox;
use git_agent_tests::binaries::{PRODUCT, workspace};
use git_agent_tests::toolbox::on_path;

/// The order of sections; a page has the first three and those it needs.
const SECTIONS: [&str; 14] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "COMMANDS",
    "OPTIONS",
    "EXIT STATUS",
    "REFS",
    "OUTPUT FORMAT",
    "EXAMPLES",
    "CONFIGURATION",
    "ENVIRONMENT",
    "FILES",
    "SEE ALSO",
    "GIT-AGENT",
];

fn page(program: &str) -> String {
    let path = workspace().join(format!("man/man1/{program}.1"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a page's text as a reader sees hyphens and fonts.
fn plain(page: &str) -> String {
    let mut text = page.replace("\\-", "-");
    for font in ["\\fB", "\\fI", "\\fR", "\\fP"] {
        text = text.replace(font, "");
    }
    text
}

/// Returns what `-h` prints for a program and, with a verb, for that.
fn help(sandbox: &Sandbox, program: &str, verb: Option<&str>) -> String {
    let command = program
        .strip_prefix("git-")
        .expect("a program that git finds");
    let run = sandbox
        .command("git")
        .arg(command)
        .args(verb)
        .arg("-h")
        .run();
    run.code(129).stdout().to_owned()
}

/// Returns the words that open the lines of the list of commands.
fn verbs(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|line| !line.starts_with(' '))
        })
        .filter_map(|line| line.split_whitespace().next())
        .map(|verb| verb.trim_end_matches(',').to_owned())
        .collect()
}

/// Returns the long options in a text.
fn long_options(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 3 && !word.starts_with("---"))
        .collect()
}

#[test]
fn every_program_has_a_page_of_the_usual_order() {
    for program in PRODUCT {
        let page = page(program);
        assert!(
            page.starts_with(&format!(".TH {} 1", program.to_uppercase())),
            "{program}.1 opens with its title"
        );
        let sections: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .collect();
        let places: Vec<usize> = sections
            .iter()
            .map(|name| {
                let known = SECTIONS
                    .iter()
                    .position(|section| section == &name.trim_matches('"'));
                known.unwrap_or_else(|| panic!("{program}.1 has an unknown section {name}"))
            })
            .collect();
        assert!(
            places.is_sorted_by(|a, b| a < b),
            "{program}.1 has its sections in another order: {sections:?}"
        );
        assert!(
            sections.starts_with(&["NAME", "SYNOPSIS", "DESCRIPTION"]),
            "{program}.1"
        );
        assert!(
            plain(&page).contains(&format!("\n{program} - ")),
            "{program}.1 has no line for apropos"
        );
        assert_eq!(
            sections.last(),
            Some(&"GIT-AGENT"),
            "{program}.1 says what it belongs to"
        );
    }
}

#[test]
fn every_option_and_command_of_the_help_is_in_the_page() {
    let sandbox = Sandbox::new();
    for program in PRODUCT {
        let page = plain(&page(program));
        let summary = help(&sandbox, program, None);
        let mut texts = vec![(program.to_owned(), summary.clone())];
        for verb in verbs(&summary) {
            if verb == "help" {
                continue;
            }
            // A heading, a tagged item or a synopsis: a word in running text is not enough.
            let shown = |line: &str| {
                let call = format!("{} {verb}", program.replace('-', " "));
                line.contains(&call)
                    || (line.starts_with('.')
                        && line.split([' ', '"', ',']).any(|word| word == verb))
            };
            assert!(
                page.lines().any(shown),
                "{program}.1 does not show how to call '{verb}'"
            );
            texts.push((
                format!("{program} {verb}"),
                help(&sandbox, program, Some(&verb)),
            ));
        }
        for (name, text) in texts {
            for option in long_options(&text) {
                assert!(
                    long_options(&page).contains(option),
                    "{program}.1 does not mention {option}, which '{name} -h' shows"
                );
            }
        }
    }
}

#[test]
fn no_page_mentions_an_option_that_is_gone() {
    let sandbox = Sandbox::new();
    for program in PRODUCT {
        let page = plain(&page(program));
        let summary = help(&sandbox, program, None);
        let mut known = summary.clone();
        for verb in verbs(&summary) {
            known += &help(&sandbox, program, Some(&verb));
        }
        let options = page
            .split_once("\n.SH OPTIONS\n")
            .map(|(_, rest)| rest.split("\n.SH ").next().unwrap_or(rest).to_owned())
            .unwrap_or_default();
        for option in long_options(&options) {
            // Every `--x` has a `--no-x`, which the help does not always list.
            let positive = option.replacen("--no-", "--", 1);
            let listed = long_options(&known);
            assert!(
                listed.contains(option) || listed.contains(positive.as_str()),
                "{program}.1 speaks of {option}, which no -h shows"
            );
        }
    }
}

#[test]
fn git_finds_the_pages() {
    let Some(man) = on_path("man").next() else {
        // Without man the layout that it would look for is all there is to check, and the first test did.
        return;
    };
    let sandbox = Sandbox::new();
    for program in PRODUCT {
        let found = sandbox
            .command(&man)
            .env("MANPATH", workspace().join("man"))
            .args(["-w", program])
            .run()
            .success();
        assert!(
            found.line().ends_with(&format!("man/man1/{program}.1")),
            "{found}"
        );
    }
    sandbox.program("man", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
    let asked = sandbox
        .command("git")
        .args(["agent", "--help"])
        .run()
        .success();
    assert_eq!(asked.line(), "git-agent", "git asks man for our page");
}

#[test]
fn every_page_renders_without_a_warning() {
    let Some(groff) = on_path("groff").next() else {
        return;
    };
    let sandbox = Sandbox::new();
    for section in fs::read_dir(workspace().join("man"))
        .expect("there is a manual")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("man"))
    {
        for page in fs::read_dir(section.path())
            .expect("a section is a directory")
            .flatten()
        {
            let rendered = sandbox
                .command(&groff)
                .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                .args(["-man", "-ww", "-Tutf8"])
                .arg(page.path())
                .run()
                .success();
            rendered.assert_quiet();
            assert!(rendered.stdout().lines().count() > 10, "{rendered}");
        }
    }
}
