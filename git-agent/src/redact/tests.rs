//! The corpus with its counts, and properties that hold for every text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use proptest::prelude::*;
use serde_json::json;

use crate::env::Millis;
use crate::model::session::Ulid;
use crate::redact::*;

/// The size of the corpus, and how many look-alike lines are wrongly changed today. A change here is a change of
/// quality.
const PLANTED: usize = 327;
const LOOKALIKES: usize = 2983;
const FALSE_ALARMS: usize = 0;

fn corpus(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/corpus/redact")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

struct Planted {
    rule: String,
    line: String,
    secret: String,
}

fn planted() -> Vec<Planted> {
    corpus("planted.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (rule, text) = line.split_once('\t').expect("rule, tab, text");
            let text = text.replace('¦', "").replace('⏎', "\n");
            let (head, rest) = text.split_once('‹').expect("a secret opens");
            let (secret, tail) = rest.split_once('›').expect("a secret closes");
            Planted {
                rule: rule.to_owned(),
                line: format!("{head}{secret}{tail}"),
                secret: secret.to_owned(),
            }
        })
        .collect()
}

fn redactor() -> Redactor {
    Redactor::new(KnownSecrets::new())
}

fn knowing(value: &str) -> Redactor {
    let mut known = KnownSecrets::new();
    known.add_value(value.as_bytes());
    Redactor::new(known)
}

/// Returns a piece of the secret that the output still contains.
fn leak<'a>(secret: &'a str, output: &str) -> Option<&'a str> {
    let length = secret.len().min(10);
    (0..=secret.len() - length)
        .filter_map(|at| secret.get(at..at + length))
        .find(|piece| {
            !piece.contains("KEY---") && !piece.contains("PRIVATE") && output.contains(piece)
        })
}

#[test]
fn no_planted_secret_is_missed() {
    let redactor = redactor();
    let planted = planted();
    let mut failures = String::new();
    for Planted { rule, line, secret } in &planted {
        let output = redactor.text(line).into_inner();
        let said = output.contains(&format!("[REDACTED:{rule}]"));
        if let Some(piece) = leak(secret, &output) {
            let _ = writeln!(
                failures,
                "MISS {rule}: {line}\n  -> {output}\n  shows {piece}"
            );
        } else if !said {
            let _ = writeln!(failures, "RULE {rule}: {line}\n  -> {output}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert_eq!(planted.len(), PLANTED);
    assert!(planted.len() >= 150);
    let kinds: BTreeSet<&str> = planted
        .iter()
        .map(|planted| planted.rule.as_str())
        .collect();
    assert!(kinds.len() >= 40, "{}", kinds.len());
}

#[test]
fn nothing_but_the_secret_goes() {
    let redactor = redactor();
    for Planted { line, secret, .. } in planted() {
        let (head, tail) = line.split_once(&secret).expect("the secret is in its line");
        let output = redactor.text(&line).into_inner();
        assert!(output.starts_with(head), "{line}\n{output}");
        assert!(output.ends_with(tail), "{line}\n{output}");
    }
}

#[test]
fn planted_secrets_vanish_wherever_they_stand() {
    let redactor = redactor();
    for Planted { line, secret, .. } in planted() {
        // Inside a JSON string inside a JSON string, as tools report.
        let once = serde_json::to_string(&line).expect("a string");
        let twice = serde_json::to_string(&once).expect("a string");
        for form in [once, twice] {
            let output = redactor.text(&form).into_inner();
            let length = secret.len().min(12);
            let piece = &secret[secret.len() / 2..secret.len().min(secret.len() / 2 + length)];
            let plain = piece.bytes().all(|byte| byte.is_ascii_alphanumeric());
            assert!(
                !plain || piece.len() < 6 || !output.contains(piece),
                "{form}\n{output}"
            );
        }
        // As a leaf of a value.
        let value = redactor
            .json(json!({"output": [line.clone()]}))
            .to_line()
            .into_inner();
        assert_eq!(leak(&secret, &value), None, "{value}");
    }
}

#[test]
fn lookalikes_stay() {
    let redactor = redactor();
    let corpus = corpus("lookalikes.txt");
    let mut alarms = String::new();
    let mut count = 0;
    for line in corpus.lines() {
        let output = redactor.text(line);
        if output.as_str() != line {
            count += 1;
            let _ = writeln!(alarms, "{line}\n  -> {}", output.as_str());
        }
    }
    let lines = corpus.lines().count();
    assert!(count * 100 <= lines, "{count} of {lines}\n{alarms}");
    assert_eq!((lines, count), (LOOKALIKES, FALSE_ALARMS), "{alarms}");
    // Neighbouring lines must not change the result.
    let whole = redactor.text(&corpus).into_inner();
    let touched = whole.matches("[REDACTED:").count() - corpus.matches("[REDACTED:").count();
    assert!(touched * 100 <= lines, "{touched} in one piece");
}

#[test]
fn the_corpus_redacts_to_itself() {
    let redactor = redactor();
    for line in planted()
        .iter()
        .map(|planted| planted.line.as_str())
        .chain(corpus("lookalikes.txt").lines())
    {
        let once = redactor.text(line);
        assert_eq!(redactor.text(once.as_str()), once, "{line}");
    }
    let all: Vec<String> = planted().into_iter().map(|planted| planted.line).collect();
    let once = redactor.text(&all.join("\n"));
    assert_eq!(redactor.text(once.as_str()), once);
    let value = redactor.json(json!({"password": all.clone(), "x": all}));
    assert_eq!(redactor.json(value.get().clone()), value);
}

#[test]
fn colours_hide_nothing() {
    let token = concat!("ghp_", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
    let mut known = KnownSecrets::new();
    known.add_value(b"Tr0ub4dor-And-3xtra-Horse");
    let redactor = Redactor::new(known);
    let clean = |text: &str| redactor.text(text).into_inner();
    assert_eq!(
        clean("pw \x1b[01;31m\x1b[KTr0ub\x1b[m\x1b[K4dor-And-3xtra-Horse end"),
        "pw \x1b[01;31m\x1b[K[REDACTED:known-secret] end"
    );
    let (head, tail) = token.split_at(9);
    let shown = clean(&format!("token {head}\x1b[0m{tail}"));
    assert!(
        !shown.contains(tail) && shown.contains("[REDACTED:"),
        "{shown}"
    );
    let coloured = "an \x1b[32mordinary\x1b[m line";
    assert_eq!(clean(coloured), coloured);
    let hex = "54723075623464 6f722d416e642d33787472612d486f727365".replace(' ', "");
    assert_eq!(clean(&format!("00{hex}00")), "00[REDACTED:known-secret]00");
}

#[test]
fn known_values_are_found_in_every_form() {
    let value = "pâ/ss \"w\\ord\"\n+9 &x";
    let redactor = knowing(value);
    let escaped = serde_json::to_string(value).expect("a string");
    let twice = serde_json::to_string(&escaped).expect("a string");
    let ascii = crate::model::event::to_ascii_json(&value);
    for form in [
        value.to_owned(),
        escaped,
        twice,
        ascii,
        "x=p%C3%A2%2Fss%20%22w%5Cord%22%0A%2B9%20%26x&y".to_owned(),
        "x=p%c3%a2%2fss+%22w%5cord%22%0a%2b9+%26x&y".to_owned(),
    ] {
        let output = redactor.text(&format!("before {form} after")).into_inner();
        assert!(
            output.contains("[REDACTED:known-secret]"),
            "{form}: {output}"
        );
        assert!(
            output.starts_with("before ") && output.ends_with(" after"),
            "{output}"
        );
        assert!(!output.contains("ord"), "{output}");
    }
    let redactor = knowing("plain old words of mine");
    let output = redactor
        .text("YXBpOnBsYWluIG9sZCB3b3JkcyBvZiBtaW5l")
        .into_inner();
    assert!(output.contains("[REDACTED:known-secret]"), "{output}");
}

#[test]
fn secrets_at_every_border_of_a_long_record_are_found() {
    let redactor = redactor();
    let secret = ["gh", "p_", "q7Rk2LmZx9Tb4WcYv8Np3Hs6Dj1Gf5Ae0UoX"].concat();
    for border in [4096, 8192, 65_536, 1 << 20] {
        for back in [0, 1, 3, 20, 39, 40] {
            let mut text = "lorem ipsum dolor sit\n".repeat(border / 22 + 4);
            text.replace_range(border - back - 1..border - back - 1, &format!(" {secret} "));
            let output = redactor.text(&text).into_inner();
            assert!(!output.contains(&secret[4..]), "{border} {back}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let redactor = redactor();
    let mut bytes = b"\xff\xfe\x00 password=\"hY7$kk2Lm\" \x80\xc3".to_vec();
    bytes.extend([0xf0, 0x9f]);
    let output = redactor.bytes(&bytes).into_inner();
    assert_eq!(
        output,
        b"\xff\xfe\x00 password=\"[REDACTED:password]\" \x80\xc3\xf0\x9f"
    );
}

#[test]
fn keys_give_their_values_away_and_ids_stay() {
    let redactor = redactor();
    let id = "q7Rk2LmZx9Tb4WcYv8Np3Hs6Dj";
    let value = redactor.json(json!({
        "id": id,
        "commit": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "free": id,
        "password": "hY7$kk2Lm",
        "pin": {"password": 73_914_826},
        "env": [{"name": "API_TOKEN", "value": "kQ3vR8wZ1pLx"}, {"name": "LANG", "value": "kQ3vR8wZ1pLx"}],
        "argv": ["--password", "hY7$kk2Lm", "--verbose"],
        "token": true,
        "max_tokens": 32_768,
        "headers": {"Cookie": "sid=8f2b7c61d09e4a35b1c2"},
    }));
    assert_eq!(
        value.get(),
        &json!({
            "id": id,
            "commit": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
            "free": "[REDACTED:high-entropy]",
            "password": "[REDACTED:password]",
            "pin": {"password": "[REDACTED:password]"},
            "env": [{"name": "API_TOKEN", "value": "[REDACTED:token]"}, {"name": "LANG", "value": "kQ3vR8wZ1pLx"}],
            "argv": ["--password", "[REDACTED:password]", "--verbose"],
            "token": true,
            "max_tokens": 32_768,
            "headers": {"Cookie": "sid=[REDACTED:cookie]"},
        })
    );
}

#[test]
fn secrets_that_are_keys_go_and_no_value_is_lost() {
    let redactor = redactor();
    let a = ["gh", "p_q7Rk2LmZx9Tb4WcYv8Np3Hs6Dj1Gf5Ae0UoX"].concat();
    let b = ["gh", "p_r7Rk2LmZx9Tb4WcYv8Np3Hs6Dj1Gf5Ae0UoX"].concat();
    let value = redactor.json(json!({a: 1, b: 2})).into_inner();
    let fields = value.as_object().expect("an object");
    assert_eq!(fields.len(), 2);
    assert!(
        fields
            .keys()
            .all(|key| key.starts_with("[REDACTED:github-token]")),
        "{value}"
    );
}

#[test]
fn an_event_keeps_its_kind_and_loses_its_secrets() {
    let redactor = redactor();
    let event = |body| Event {
        id: Ulid::from_parts(Millis(1), [7; 10]),
        seq: 1,
        lc: 1,
        ts: Millis(1),
        turn: 1,
        body,
    };
    let call = event(Body::ToolCall {
        call: "toolu_01q7Rk2LmZx9Tb4WcYv8Np3H".into(),
        name: "bash".into(),
        kind: "execute".into(),
        input: json!({"command": "mysql -psQ8xLkZt42 shop"}),
    });
    let clean = redactor.event(&call);
    assert_eq!(
        clean.get().body,
        Body::ToolCall {
            call: "toolu_01q7Rk2LmZx9Tb4WcYv8Np3H".into(),
            name: "bash".into(),
            kind: "execute".into(),
            input: json!({"command": "mysql -p[REDACTED:cli-password] shop"}),
        }
    );
    assert_eq!(redactor.event(clean.get()), clean);
    assert!(!clean.to_line().as_str().contains("Q8xLk"));
    let unknown = event(Body::Unknown(
        json!({"type": "later", "password": "hY7$kk2Lm"})
            .as_object()
            .expect("an object")
            .clone(),
    ));
    let line = redactor.event(&unknown).to_line().into_inner();
    assert!(
        line.contains("\"later\"") && line.contains("[REDACTED:password]"),
        "{line}"
    );
}

#[test]
fn a_forged_placeholder_hides_nothing() {
    let output = redactor()
        .text("password: \"[REDACTED:hY7$kk2Lm]x\" a_token=[REDACTED:q7Rk2LmZx9Tb4WcYv8Np3Hs6]")
        .into_inner();
    assert!(!output.contains("q7Rk2L"), "{output}");
}

#[test]
fn pieces_come_together_without_a_second_look() {
    let pieces = [redactor().text("a"), Redacted::trusted("b")];
    assert_eq!(Redacted::concat(&pieces).into_bytes().into_inner(), b"ab");
}

#[test]
fn time_is_linear_in_hostile_text() {
    let redactor = redactor();
    let line = planted()
        .iter()
        .map(|planted| planted.line.replace('\n', " "))
        .collect::<Vec<_>>()
        .join(" and ");
    let lookalikes = corpus("lookalikes.txt").replace('\n', " ");
    let long =
        format!("{line} {lookalikes} ").repeat((5 << 20) / (line.len() + lookalikes.len()) + 1);
    let started = Instant::now();
    let _ = redactor.text(&long);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    for piece in [
        "a",
        "eyJ",
        "eyJ-",
        "password=\"",
        "password='password=",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----\n",
        "://a:b",
        "curl ",
        "cookie: a=b;",
        "bearer ",
        "sk-",
        "key",
        "token=\\",
        "q7Rk2LmZx9Tb4WcYv8Np3Hs6Dj ",
        "[REDACTED:token]",
        "ghp_",
        "Q~",
        ".atlasv1.",
        "authorization:",
        "\\",
        "-us",
        ":AA",
    ] {
        let text = piece.repeat((1 << 18) / piece.len());
        let started = Instant::now();
        let _ = redactor.text(&text);
        // A generous bound for a slow machine without optimisation: a quadratic scan would take hours.
        assert!(
            started.elapsed().as_secs() < 60,
            "{piece:?} took {:?}",
            started.elapsed()
        );
    }
}

proptest! {
    #[test]
    fn redacting_twice_changes_nothing(pieces in proptest::collection::vec(piece(), 0..12)) {
        let redactor = redactor();
        let text = pieces.concat();
        let once = redactor.text(&text);
        prop_assert_eq!(redactor.text(once.as_str()), once.clone());
        let bytes = redactor.bytes(text.as_bytes());
        prop_assert_eq!(bytes.as_bytes(), once.as_bytes());
    }

    #[test]
    fn any_bytes_do(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let redactor = redactor();
        let once = redactor.bytes(&bytes);
        prop_assert_eq!(redactor.bytes(once.as_bytes()), once);
    }
}

/// Pieces that, combined at random, produce the borders between rules.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9]{1,40}",
        "[a-z_]{1,12}[=: ]{1,2}",
        "\\PC{0,8}",
        prop::sample::select(vec![
            "password",
            "\"",
            "'",
            "=",
            ": ",
            "://",
            "@",
            "user:",
            "\\n",
            "\n",
            " ",
            "[REDACTED:token]",
            "[REDACTED:",
            "]",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "eyJhbGciOiJIUzI1NiJ9.",
            "Bearer ",
            "Basic ",
            "Authorization: ",
            "Cookie: a=",
            "curl -u a:",
            "--token ",
            "\\\"",
            "secret",
            "_KEY=",
            "é",
            "%3D",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(
            planted()
                .into_iter()
                .map(|planted| planted.line)
                .collect::<Vec<_>>()
        ),
        prop::sample::select(
            planted()
                .into_iter()
                .map(|planted| planted.secret)
                .collect::<Vec<_>>()
        ),
    ]
}

#[test]
fn code_holds_what_a_generator_drew_and_no_examples() {
    let redactor = Redactor::new(KnownSecrets::default());
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    for code in [
        "PASSWORD=wEEnYA62OMnhGDQ1\n",
        "password: \"wEEnYA62OMnhGDQ1\"\n",
        "DB_PASSWORD='wEEnYA62OMnhGDQ1'",
        "url = \"postgres://app:wEEnYA62OMnhGDQ1@db.internal/x\"",
        "client_secret=Zk3vT9qLw2XyB7nR4mHs",
        "Authorization: Bearer Zk3vT9qLw2XyB7nR4mHs",
        &format!("token_{token}"),
        &format!("MY_{token}=1"),
    ] {
        assert!(redactor.secret_in_code(code.as_bytes()).is_some(), "{code}");
    }
    for code in [
        "let password: String = prompt(\"password: \")?;",
        "PASSWORD=changeme\nSECRET_KEY=your-secret-key-here\n",
        "password = \"correct horse battery staple\"",
        "token = session.get_token(user_id)",
        "postgres://user:password@localhost:5432/db",
        "api_key: process.env.OPENAI_API_KEY,",
        "const SECRET: &str = \"not-a-real-secret-value\";",
        "Authorization: Bearer $TOKEN",
    ] {
        assert_eq!(redactor.secret_in_code(code.as_bytes()), None, "{code}");
    }
}
