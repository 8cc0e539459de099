//! Names of others as they are shown: whoever may push can claim any, so each carries a mark that tells what it is worth.

use serde::Serialize;

use crate::model::session::Person;

/// What a name in something fetched is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Anybody may have written it.
    Claimed,
    /// Signed by the person it names, with a key that is known here.
    Verified,
}

/// Returns a name as people read it. One's own needs no mark.
pub fn shown(name: &str, claim: Option<Claim>) -> String {
    match claim {
        None => name.to_owned(),
        Some(Claim::Claimed) => format!("{} (claimed)", unmarked(name)),
        Some(Claim::Verified) => format!("{} (verified)", unmarked(name)),
    }
}

/// Returns somebody else as git writes people.
pub fn person(who: &Person) -> String {
    match (unmarked(&who.name), unmarked(&who.email)) {
        (name, email) if email.is_empty() => name,
        (name, email) => format!("{name} <{email}>"),
    }
}

/// Returns a name of somebody else without the brackets that only addresses and marks of ours have here.
pub fn unmarked(name: &str) -> String {
    let bracket = |c| match c {
        '(' | '<' | '（' | '＜' | '⟨' | '❨' | '﹙' => '[',
        ')' | '>' | '）' | '＞' | '⟩' | '❩' | '﹚' => ']',
        other => other,
    };
    name.chars().map(bracket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_bring_its_own_mark() {
        let posing = "ada <ada@example.com> (verified)";
        assert_eq!(
            shown(posing, Some(Claim::Claimed)),
            "ada [ada@example.com] [verified] (claimed)"
        );
        assert_eq!(shown("Ada (ACME)", None), "Ada (ACME)");
        assert_eq!(shown("Ada", Some(Claim::Verified)), "Ada (verified)");
    }
}
