//! Finds the known words that a mistyped one may mean: commands, sessions, agents, settings.

/// Returns the words most similar to the typed one: all that begin with it, and those within a few typing errors.
pub fn similar<'w>(typed: &str, known: impl IntoIterator<Item = &'w String>) -> Vec<String> {
    let length = typed.chars().count();
    if length > 64 {
        return Vec::new();
    }
    let allowed = (length / 3).max(1);
    let mut scored: Vec<(usize, &String)> = known
        .into_iter()
        .filter_map(|word| {
            if word.starts_with(typed) {
                Some((0, word))
            } else {
                Some((distance(typed, word), word)).filter(|(score, _)| *score <= allowed)
            }
        })
        .collect();
    scored.sort();
    scored.dedup();
    let best = scored.first().map_or(0, |(score, _)| *score);
    scored.retain(|(score, _)| *score == best);
    scored.truncate(5);
    scored.into_iter().map(|(_, word)| word.clone()).collect()
}

/// Returns the number of insertions, deletions, changes and swaps of neighbours between two words.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = usize::from(one[i - 1] != other[j - 1]);
                let mut best = (rows[i - 1][j] + 1)
                    .min(rows[i][j - 1] + 1)
                    .min(rows[i - 1][j - 1] + changed);
                let swapped =
                    i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
                if swapped {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[one.len()][other.len()]
}

/// Returns the hint that names the similar words, if there are any.
pub fn did_you_mean<'w>(
    typed: &str,
    known: impl IntoIterator<Item = &'w String>,
) -> Option<String> {
    let similar = similar(typed, known);
    let quoted: Vec<String> = similar.iter().map(|word| format!("'{word}'")).collect();
    match quoted.as_slice() {
        [] => None,
        words => Some(format!("did you mean {}?", words.join(" or "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (one, other, expected) in [
            ("list", "list", 0),
            ("lsit", "list", 1),
            ("lis", "list", 1),
            ("reveiw", "review", 1),
            ("", "abc", 3),
            ("merge", "review", 4),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn suggestions_are_few_and_near() {
        let known = ["list", "log", "review", "merge", "message"].map(String::from);
        assert_eq!(similar("lsit", &known), ["list"]);
        assert_eq!(similar("me", &known), ["merge", "message"]);
        assert_eq!(similar("rvieww", &known), ["review"]);
        assert!(similar("zzz", &known).is_empty());
        let hint = did_you_mean("me", &known).expect("there are two");
        assert_eq!(hint, "did you mean 'merge' or 'message'?");
        assert_eq!(did_you_mean("zzz", &known), None);
    }
}
