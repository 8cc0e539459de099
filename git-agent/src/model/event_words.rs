//! The words in events: who sent a prompt, the kind of a tool, a request or an error. Each is an enum that keeps a word
//! it does not know, because newer programs and vendors add words.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::turn_claim::TroubleKind;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about])* $variant,)*
            /// A word that this version does not know.
            Other(String),
        }

        impl $name {
            /// Returns the word in records.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $word,)*
                    $name::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => $name::$variant,)*
                    word => $name::Other(word.to_owned()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(String::deserialize(deserializer)?.as_str().into())
            }
        }

        #[cfg(test)]
        impl $name {
            fn known() -> Vec<(Self, &'static str)> {
                vec![$(($name::$variant, $word),)*]
            }
        }
    )*};
}

words! {
    /// The sender of a prompt; a session is named as `session:<id>`.
    Sender {
        /// Not recorded.
        Unnamed = "",
        /// The user.
        User = "user",
        /// A review that was sent back.
        Review = "review",
        /// A merge that found a conflict or a failed test.
        Merge = "merge",
        /// The plan that the session is a part of.
        Plan = "plan",
        /// Messages of other sessions, or of the user, that waited for the end of a turn.
        Message = "message",
    }

    /// The kind of a tool.
    ToolKind {
        /// Not recorded.
        Unnamed = "",
        /// Changes files.
        Edit = "edit",
        /// Runs a command.
        Execute = "execute",
        /// Reads a file.
        Read = "read",
        /// Searches files.
        Search = "search",
        /// Fetches from the network.
        Fetch = "fetch",
        /// Does anything else.
        Unclear = "other",
    }

    /// The change of a file.
    FileChange {
        /// The file is new.
        Add = "add",
        /// Its contents changed.
        Change = "change",
        /// The file is gone.
        Delete = "delete",
        /// The file has another name.
        Rename = "rename",
    }

    /// How far a step of a plan is.
    StepStatus {
        /// Not begun.
        Pending = "pending",
        /// Begun.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
    }

    /// The kind of a request.
    RequestKind {
        /// May the agent do this?
        Permission = "permission",
        /// A question that may be answered in any words.
        Question = "question",
    }

    /// The effect of one possible answer.
    ChoiceKind {
        /// Not recorded.
        Unnamed = "",
        /// Allows this call.
        AllowOnce = "allow_once",
        /// Allows this call and later ones like it.
        AllowAlways = "allow_always",
        /// Refuses this call.
        RejectOnce = "reject_once",
        /// Refuses this call and later ones like it.
        RejectAlways = "reject_always",
    }

    /// The source of an answer.
    AnsweredBy {
        /// The user.
        User = "user",
        /// The settings of the session.
        Policy = "policy",
        /// The time limit for answers.
        Timeout = "timeout",
        /// The agent, which no longer needs one.
        Agent = "agent",
    }

    /// The stream of a line that a program printed.
    OutputStream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }

    /// The kind of an error.
    ErrorKind {
        /// The program is not installed.
        NotInstalled = "not-installed",
        /// Not logged in, or a bad key.
        Auth = "auth",
        /// Too many requests.
        RateLimit = "rate-limit",
        /// The model's service failed.
        Model = "model",
        /// The conversation is too long for the model.
        Context = "context",
        /// The agent's process died.
        Crash = "crash",
        /// The agent's output could not be parsed.
        Protocol = "protocol",
        /// The guard found or undid something.
        Guard = "guard",
        /// A limit was reached.
        Limit = "limit",
        /// The agent was silent for longer than allowed.
        Stuck = "stuck",
        /// Anything else.
        Unclear = "other",
    }
}

impl ChoiceKind {
    /// Returns whether the answer allows.
    pub fn allows(&self) -> bool {
        self.as_str().starts_with("allow")
    }

    /// Returns whether the answer refuses.
    pub fn refuses(&self) -> bool {
        self.as_str().starts_with("reject")
    }
}

macro_rules! unnamed {
    ($($name:ident)*) => {$(
        impl Default for $name {
            fn default() -> Self {
                $name::Unnamed
            }
        }

        impl $name {
            /// Returns whether no word is recorded.
            pub fn is_unnamed(&self) -> bool {
                *self == $name::Unnamed
            }
        }
    )*};
}

unnamed!(Sender ToolKind ChoiceKind);

impl From<TroubleKind> for ErrorKind {
    fn from(kind: TroubleKind) -> Self {
        match kind {
            TroubleKind::NotInstalled => ErrorKind::NotInstalled,
            TroubleKind::Auth => ErrorKind::Auth,
            TroubleKind::RateLimit => ErrorKind::RateLimit,
            TroubleKind::Model => ErrorKind::Model,
            TroubleKind::Context => ErrorKind::Context,
            TroubleKind::Crash => ErrorKind::Crash,
            TroubleKind::Protocol => ErrorKind::Protocol,
            TroubleKind::Other => ErrorKind::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! round_trip {
        ($($name:ident)*) => {$({
            for (value, word) in $name::known() {
                let text = serde_json::to_string(&value).expect("a word");
                assert_eq!(text, format!("\"{word}\""));
                assert_eq!(serde_json::from_str::<$name>(&text).expect("a word"), value);
            }
            for word in ["hologram", "Edit", " user", "k\u{e4}se", "session:01"] {
                let value: $name = serde_json::from_value(word.into()).expect("any word");
                assert_eq!(value, $name::Other(word.to_owned()));
                assert_eq!(serde_json::to_value(&value).expect("a word"), word);
                assert_eq!(value.to_string(), word);
            }
            assert!(serde_json::from_str::<$name>("7").is_err());
        })*};
    }

    #[test]
    fn known_and_unknown_words_survive_a_round_trip() {
        round_trip!(Sender ToolKind FileChange StepStatus RequestKind ChoiceKind AnsweredBy OutputStream ErrorKind);
    }

    #[test]
    fn the_effect_of_a_choice_shows_in_unknown_words_too() {
        assert!(ChoiceKind::AllowAlways.allows() && ChoiceKind::from("allow_today").allows());
        assert!(ChoiceKind::RejectOnce.refuses() && ChoiceKind::from("reject_all").refuses());
        assert!(!ChoiceKind::Unnamed.allows() && !ChoiceKind::Unnamed.refuses());
    }
}
