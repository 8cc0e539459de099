//! Shows the names of other authors with a mark for their proof, because anyone who may push can claim any name.

use serde::Serialize;

use crate::model::session::Person;

/// How well the author of a fetched record is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authorship {
    /// Not proven: any pusher may have written it.
    Claimed,
    /// Signed by that person, with a key that is known here.
    Verified,
}

/// Returns a name for display. The user's own name needs no mark.
pub fn shown(name: &str, claim: Option<Authorship>) -> String {
    match claim {
        None => name.to_owned(),
        Some(Authorship::Claimed) => format!("{} (claimed)", unmarked(name)),
        Some(Authorship::Verified) => format!("{} (verified)", unmarked(name)),
    }
}

/// Returns another author's name for a column, where only a verified name is marked.
pub fn in_column(name: &str, claim: Authorship) -> String {
    match claim {
        Authorship::Claimed => unmarked(name),
        Authorship::Verified => shown(name, Some(claim)),
    }
}

/// Returns another author as git writes people.
pub fn person(who: &Person) -> String {
    match (unmarked(&who.name), unmarked(&who.email)) {
        (name, email) if email.is_empty() => name,
        (name, email) => format!("{name} <{email}>"),
    }
}

/// Returns another author's name without brackets, which only addresses and our marks may contain.
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
            shown(posing, Some(Authorship::Claimed)),
            "ada [ada@example.com] [verified] (claimed)"
        );
        assert_eq!(shown("Ada (ACME)", None), "Ada (ACME)");
        assert_eq!(shown("Ada", Some(Authorship::Verified)), "Ada (verified)");
    }
}
