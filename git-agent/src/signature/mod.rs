//! Signatures: the user's own on what is shared, and what those of others are worth.
//!
//! Whoever may push can claim to be anybody, so an author is only claimed unless a key that this clone's user knows says
//! the same. Keys and programs are git's own settings: `gpg.format`, `user.signingKey`, `gpg.ssh.allowedSignersFile`.

pub mod cache;

use serde::Serialize;

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::remote::Signed;

/// What a signature is worth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Standing {
    /// There is none: the author is only claimed.
    None,
    /// Signed by the author it names.
    Verified {
        /// Whom the key belongs to.
        by: String,
    },
    /// Signed by somebody known, who is not the author it names.
    Other {
        /// Whom the key belongs to.
        by: String,
    },
    /// Signed with a key that is nobody's here.
    Stranger {
        /// The key.
        key: String,
    },
    /// Signed, but it cannot be checked here.
    Unchecked,
    /// The signature is wrong.
    Bad,
}

impl Standing {
    /// Returns it in words, to stand behind an author.
    pub fn words(&self) -> String {
        match self {
            Standing::None => "claimed".to_owned(),
            Standing::Verified { by } => format!("verified: {by}"),
            Standing::Other { by } => format!("claimed, but signed by {by}"),
            Standing::Stranger { .. } => "claimed, signed with an unknown key".to_owned(),
            Standing::Unchecked => "claimed, its signature cannot be checked".to_owned(),
            Standing::Bad => "claimed, its signature is wrong".to_owned(),
        }
    }

    fn of(signed: Signed, claimed: Option<&str>) -> Self {
        match signed {
            // Whoever asks knows that there is one.
            Signed::No => Standing::Unchecked,
            Signed::Bad => Standing::Bad,
            Signed::Unknown => Standing::Unchecked,
            Signed::Stranger(key) => Standing::Stranger { key },
            Signed::By(by) => match claimed {
                Some(email) if !names(&by, email) => Standing::Other { by },
                _ => Standing::Verified { by },
            },
        }
    }
}

/// Returns whether a signer, `email` or `name <email>`, is a person with this address.
pub(crate) fn names(signer: &str, email: &str) -> bool {
    let address = match signer.rsplit_once('<') {
        Some((_, rest)) => rest.trim_end_matches('>'),
        None => signer,
    };
    !email.is_empty() && address.trim().eq_ignore_ascii_case(email.trim())
}

/// A tip to be judged.
pub(crate) struct Tip<'w> {
    pub id: ObjectId,
    /// The address of the author it names.
    pub claimed: Option<String>,
    pub refused: &'w mut Option<String>,
    pub standing: &'w mut Option<Standing>,
}

/// Judges the signatures of tips. One that is wrong is a reason to refuse; none at all is not.
pub(crate) fn judge_all(context: &Context<'_>, tips: &mut [Tip<'_>]) -> Result<()> {
    let mut signed = Vec::new();
    for (at, tip) in tips.iter().enumerate() {
        if context.repo.is_signed(tip.id)? {
            signed.push(at);
        }
    }
    let ids: Vec<ObjectId> = signed.iter().map(|at| tips[*at].id).collect();
    for (at, found) in signed.into_iter().zip(context.repo.signatures(&ids)?) {
        let tip = &mut tips[at];
        let standing = Standing::of(found, tip.claimed.as_deref());
        if standing == Standing::Bad {
            *tip.refused = Some("its signature is wrong".to_owned());
        }
        *tip.standing = Some(standing);
    }
    Ok(())
}

/// Returns what the signature of a log's tip is worth.
pub fn standing(context: &Context<'_>, tip: ObjectId, claimed: &str) -> Result<Standing> {
    if !context.repo.is_signed(tip)? {
        return Ok(Standing::None);
    }
    let found = context.repo.signatures(&[tip])?.pop();
    Ok(Standing::of(found.unwrap_or(Signed::No), Some(claimed)))
}

/// Refuses what a remote has under the name of one of this clone's refs when it is signed by somebody else or by nobody,
/// although this clone signs: taken over, it would be signed with what is new here.
pub(crate) fn require_own(context: &Context<'_>, tip: ObjectId) -> Result<()> {
    if !is_wanted(context)? {
        return Ok(());
    }
    let (_, email) = context.repo.committer()?;
    match standing(context, tip, &email)? {
        Standing::Verified { .. } => Ok(()),
        // Anybody can sign with a key that nobody looks at.
        Standing::Unchecked => Err(Error::fatal(format!(
            "what the remote has of it is signed, but by whom cannot be checked here{}",
            match context.repo.config_string("gpg.format").as_deref() {
                Some("ssh") => "; git config gpg.ssh.allowedSignersFile <file> lets it be",
                _ => "",
            }
        ))),
        Standing::None => Err(Error::fatal("what the remote has of it is not signed")),
        other => Err(Error::fatal(format!(
            "what the remote has of it is not signed by {email}: {}",
            other.words()
        ))),
    }
}

/// Returns whether a commit is signed by the user.
pub(crate) fn is_users(context: &Context<'_>, tip: ObjectId) -> Result<bool> {
    let (_, email) = context.repo.committer()?;
    let standing = standing(context, tip, &email)?;
    Ok(matches!(standing, Standing::Verified { .. }))
}

/// Returns whether the user wants what is shared to be signed.
pub fn is_wanted(context: &Context<'_>) -> Result<bool> {
    context.config.require(&settings::SIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_counts_only_for_the_author_it_is() {
        let by = |signer: &str| Signed::By(signer.to_owned());
        let verified = |signer: &str| Standing::Verified { by: signer.into() };
        let claimed = Some("ada@example.com");
        for signer in ["ada@example.com", "Ada <ADA@example.com>"] {
            assert_eq!(Standing::of(by(signer), claimed), verified(signer));
        }
        for signer in ["eve@example.com", "ada@example.com <eve@example.com>", ""] {
            let standing = Standing::of(by(signer), claimed);
            assert!(matches!(standing, Standing::Other { .. }), "{signer}");
        }
        assert_eq!(Standing::of(Signed::No, claimed), Standing::Unchecked);
        assert_eq!(Standing::of(by("x"), None), verified("x"));
    }
}
