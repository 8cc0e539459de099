//! Permanent identifiers: a session's id (a lower-case ULID) and a clone's identity as author of records.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::env::{Env, Millis};
use crate::error::{Error, Result};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 26;
/// The value of a byte that is not a digit.
const NONE: u8 = u8::MAX;
/// The value of each byte as a digit. A table, because listings parse thousands of ids.
const WORTH: [u8; 256] = {
    let mut worth = [NONE; 256];
    let mut at: u8 = 0;
    while at < 32 {
        worth[ALPHABET[at as usize] as usize] = at;
        at += 1;
    }
    worth
};

/// A lower-case ULID: 48 bits of time in milliseconds, then 80 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid([u8; LENGTH]);

impl Ulid {
    /// Returns a new id.
    pub fn new(env: &Env) -> Self {
        Ulid::from_parts(env.now(), env.random())
    }

    /// Builds an id from a time and ten random bytes.
    pub fn from_parts(time: Millis, random: [u8; 10]) -> Self {
        let mut value = u128::from(time.0 & 0xffff_ffff_ffff) << 80;
        for (index, byte) in random.iter().enumerate() {
            value |= u128::from(*byte) << (72 - 8 * index);
        }
        let mut text = [0; LENGTH];
        for (index, slot) in text.iter_mut().enumerate() {
            let shift = 5 * (LENGTH - 1 - index);
            *slot = ALPHABET[usize::try_from((value >> shift) & 31).expect("five bits fit")];
        }
        Ulid(text)
    }

    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the alphabet is ASCII")
    }

    /// Returns the time at which the id was made.
    pub fn time(&self) -> Millis {
        let digit = |byte: &u8| u64::from(WORTH[usize::from(*byte)] & 31);
        Millis(
            self.0[..10]
                .iter()
                .fold(0, |time, byte| (time << 5) | digit(byte)),
        )
    }

    /// Returns the UTC month in which the id was made, as `YYYY-MM`.
    pub fn month(&self) -> String {
        let (year, month) = civil_month(self.time());
        format!("{year:04}-{month:02}")
    }

    /// Returns whether the id was made in a month, given as `YYYY-MM`.
    pub fn is_of(&self, text: &str) -> bool {
        let (year, month) = civil_month(self.time());
        if year > 9999 {
            return self.month() == text;
        }
        let digit = |value: u64| b"0123456789"[usize::try_from(value % 10).unwrap_or(0)];
        let year = [1000, 100, 10, 1].map(|place| digit(year / place));
        let month = [digit(month / 10), digit(month)];
        matches!(text.as_bytes(), [y @ .., b'-', one, two] if *y == year && [*one, *two] == month)
    }
}

/// Returns the UTC year and month of a time.
fn civil_month(time: Millis) -> (u64, u64) {
    // Days to civil date, for days since 1970 only (Howard Hinnant's published algorithm).
    let days = time.0 / 86_400_000 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month)
}

impl FromStr for Ulid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes: [u8; LENGTH] = text
            .as_bytes()
            .try_into()
            .map_err(|_| Error::fatal("not an id: it must have 26 characters"))?;
        if bytes[0] > b'7' || bytes.iter().any(|byte| WORTH[usize::from(*byte)] == NONE) {
            return Err(Error::fatal("not an id: it must be a lower-case ULID"));
        }
        Ok(Ulid(bytes))
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Ulid {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Ulid {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_str(Reader)
    }
}

/// Parses an id without copying its text.
struct Reader;

impl serde::de::Visitor<'_> for Reader {
    type Value = Ulid;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an id")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Ulid, E> {
        text.parse().map_err(E::custom)
    }
}

/// A session's id.
pub type SessionId = Ulid;

/// This clone's identity as author of records: `[a-z0-9]{1,16}-[a-z0-9]{4,8}`, random per clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WriterId(String);

impl WriterId {
    /// Draws an identity whose readable half comes from a user name.
    pub fn draw(env: &Env, user: &str) -> Self {
        let mut stem: String = user
            .chars()
            .map(|c| c.to_ascii_lowercase())
            .filter(char::is_ascii_alphanumeric)
            .take(16)
            .collect();
        if stem.is_empty() {
            stem.push_str("someone");
        }
        let tail: String = env
            .random::<6>()
            .iter()
            .map(|byte| char::from(ALPHABET[usize::from(byte & 31)]))
            .collect();
        WriterId(format!("{stem}-{tail}"))
    }

    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WriterId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain = |part: &str| {
            part.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match text.split_once('-') {
            Some((stem, tail))
                if (1..=16).contains(&stem.len())
                    && (4..=8).contains(&tail.len())
                    && plain(stem)
                    && plain(tail) =>
            {
                Ok(WriterId(text.to_owned()))
            }
            _ => Err(Error::fatal(
                "not a writer id: it must look like name-1a2b3c",
            )),
        }
    }
}

impl TryFrom<String> for WriterId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<WriterId> for String {
    fn from(writer: WriterId) -> Self {
        writer.0
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ulid_keeps_time_and_order() {
        let early = Ulid::from_parts(Millis(1_700_000_000_123), [1; 10]);
        let late = Ulid::from_parts(Millis(1_700_000_000_124), [0; 10]);
        assert_eq!(early.time(), Millis(1_700_000_000_123));
        assert!(early < late);
        assert_eq!(
            early.as_str().parse::<Ulid>().expect("own text parses"),
            early
        );
        assert_eq!(early.month(), "2023-11");
    }

    #[test]
    fn month_boundaries() {
        for (millis, expected) in [
            (0, "1970-01"),
            (951_782_400_000, "2000-02"),
            (951_868_799_999, "2000-02"),
            (951_868_800_000, "2000-03"),
            (1_798_761_599_999, "2026-12"),
            (1_798_761_600_000, "2027-01"),
            (0xffff_ffff_ffff, "10889-08"),
        ] {
            let id = Ulid::from_parts(Millis(millis), [0; 10]);
            assert_eq!(id.month(), expected, "{millis}");
            for text in [
                "1970-01", "2000-02", "2000-03", "2000-3", "02000-03", "2026-12", "",
            ] {
                assert_eq!(id.is_of(text), text == expected, "{millis} {text}");
            }
        }
    }

    #[test]
    fn refuses_what_is_not_an_id() {
        for bad in [
            "",
            "01",
            "8zzzzzzzzzzzzzzzzzzzzzzzzz",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "01arz3ndektsv4rrffq69g5fai",
        ] {
            assert!(bad.parse::<Ulid>().is_err(), "{bad}");
        }
        for bad in [
            "",
            "-",
            "a-b",
            "A-1234",
            "a-1234-5",
            "a_b-1234",
            "abcdefghijklmnopq-1234",
            "a-123456789",
        ] {
            assert!(bad.parse::<WriterId>().is_err(), "{bad}");
        }
    }
}
