//! Signs the user's own shared refs and judges the signatures of others.
//!
//! Anyone with push access can write any author name, so an author counts as claimed until a key that this clone's user
//! trusts confirms the name. Keys and programs are git's own settings: `gpg.format`, `user.signingKey`,
//! `gpg.ssh.allowedSignersFile`.

pub mod cache;

use serde::Serialize;

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::remote::Signed;

/// The judgement of a signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum SignatureStatus {
    /// Not signed; the author is only claimed.
    None,
    /// Signed by the named author.
    Verified {
        /// The owner of the key.
        by: String,
    },
    /// Signed by a known signer who is not the named author.
    Other {
        /// The owner of the key.
        by: String,
    },
    /// Signed with an unknown key.
    Stranger { key: String },
    /// Signed, but the signature cannot be checked here.
    Unchecked,
    /// The signature is wrong.
    Bad,
}

impl SignatureStatus {
    /// Returns the judgement in words, to print after an author's name.
    pub fn words(&self) -> String {
        match self {
            SignatureStatus::None => "claimed".to_owned(),
            SignatureStatus::Verified { by } => format!("verified: {by}"),
            SignatureStatus::Other { by } => format!("claimed, but signed by {by}"),
            SignatureStatus::Stranger { .. } => "claimed, signed with an unknown key".to_owned(),
            SignatureStatus::Unchecked => "claimed, its signature cannot be checked".to_owned(),
            SignatureStatus::Bad => "claimed, its signature is wrong".to_owned(),
        }
    }

    fn of(signed: Signed, claimed: Option<&str>) -> Self {
        match signed {
            // The caller has seen a signature.
            Signed::No => SignatureStatus::Unchecked,
            Signed::Bad => SignatureStatus::Bad,
            Signed::Unknown => SignatureStatus::Unchecked,
            Signed::Stranger(key) => SignatureStatus::Stranger { key },
            Signed::By(by) => match claimed {
                Some(email) if !names(&by, email) => SignatureStatus::Other { by },
                _ => SignatureStatus::Verified { by },
            },
        }
    }
}

/// Returns whether a signer, `email` or `name <email>`, has this address.
pub(crate) fn names(signer: &str, email: &str) -> bool {
    let address = match signer.rsplit_once('<') {
        Some((_, rest)) => rest.trim_end_matches('>'),
        None => signer,
    };
    !email.is_empty() && address.trim().eq_ignore_ascii_case(email.trim())
}

/// A tip whose signature is to be judged.
pub(crate) struct Tip<'w> {
    pub id: ObjectId,
    /// The address of the named author.
    pub claimed: Option<String>,
    pub refused: &'w mut Option<String>,
    pub standing: &'w mut Option<SignatureStatus>,
}

/// Judges the signatures of tips. Refuses a tip with a wrong signature, but not one without any.
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
        let standing = SignatureStatus::of(found, tip.claimed.as_deref());
        if standing == SignatureStatus::Bad {
            *tip.refused = Some("its signature is wrong".to_owned());
        }
        *tip.standing = Some(standing);
    }
    Ok(())
}

/// Judges the signature of a log's tip.
pub fn standing(context: &Context<'_>, tip: ObjectId, claimed: &str) -> Result<SignatureStatus> {
    if !context.repo.is_signed(tip)? {
        return Ok(SignatureStatus::None);
    }
    let found = context.repo.signatures(&[tip])?.pop();
    Ok(SignatureStatus::of(
        found.unwrap_or(Signed::No),
        Some(claimed),
    ))
}

/// If this clone signs, refuses the remote's version of one of its refs unless the user has signed it: a join would put
/// the user's signature on it.
pub(crate) fn require_own(context: &Context<'_>, tip: ObjectId) -> Result<()> {
    if !is_wanted(context)? {
        return Ok(());
    }
    let (_, email) = context.repo.committer()?;
    match standing(context, tip, &email)? {
        SignatureStatus::Verified { .. } => Ok(()),
        // An unverifiable signature proves nothing: anyone can make one.
        SignatureStatus::Unchecked => Err(Error::fatal(format!(
            "the remote's version is signed, but the signer cannot be checked here{}",
            match context.repo.config_string("gpg.format").as_deref() {
                Some("ssh") => "; set it up with git config gpg.ssh.allowedSignersFile <file>",
                _ => "",
            }
        ))),
        SignatureStatus::None => Err(Error::fatal("the remote's version is not signed")),
        other => Err(Error::fatal(format!(
            "the remote's version is not signed by {email}: {}",
            other.words()
        ))),
    }
}

/// Returns whether a commit is signed by the user.
pub(crate) fn is_users(context: &Context<'_>, tip: ObjectId) -> Result<bool> {
    let (_, email) = context.repo.committer()?;
    let standing = standing(context, tip, &email)?;
    Ok(matches!(standing, SignatureStatus::Verified { .. }))
}

/// Returns whether the user wants shared refs to be signed.
pub fn is_wanted(context: &Context<'_>) -> Result<bool> {
    context.config.require(&settings::SIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_counts_only_for_the_author_it_is() {
        let by = |signer: &str| Signed::By(signer.to_owned());
        let verified = |signer: &str| SignatureStatus::Verified { by: signer.into() };
        let claimed = Some("ada@example.com");
        for signer in ["ada@example.com", "Ada <ADA@example.com>"] {
            assert_eq!(SignatureStatus::of(by(signer), claimed), verified(signer));
        }
        for signer in ["eve@example.com", "ada@example.com <eve@example.com>", ""] {
            let standing = SignatureStatus::of(by(signer), claimed);
            assert!(
                matches!(standing, SignatureStatus::Other { .. }),
                "{signer}"
            );
        }
        assert_eq!(
            SignatureStatus::of(Signed::No, claimed),
            SignatureStatus::Unchecked
        );
        assert_eq!(SignatureStatus::of(by("x"), None), verified("x"));
    }
}
