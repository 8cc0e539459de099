//! The shapes of providers' tokens: a unique prefix, then a number of characters of a class.
//!
//! The one pass over the text finds a row by its prefix; only then is the rest of the token examined. Credentials
//! without a shape (32 hexadecimal digits, say) are found by the name beside them.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

use crate::redact::detect::judge::is_stand_in;
use crate::redact::text::{Class, starts_token};

/// One kind of token.
pub(crate) struct Shape {
    /// The name in the placeholder.
    pub(crate) rule: &'static str,
    /// The prefixes of the tokens, in this case.
    pub(crate) prefixes: &'static [&'static str],
    tail: Tail,
}

/// The rest of a token after its prefix.
enum Tail {
    /// A number of characters of a class within bounds, and then another character.
    Run(Class, usize, usize),
    /// The same with at least one digit, because the prefix alone occurs in ordinary words.
    RunWithDigit(Class, usize, usize),
    /// The same unless its neighbours belong to base64, because the prefix alone occurs in that.
    RunAlone(Class, usize, usize),
    /// A pattern for prefix and rest together; the token is the first group if there is one.
    Pattern(&'static str, &'static OnceLock<Regex>),
    /// A pattern for the text from this many bytes before the prefix; it must match across the prefix.
    Around(usize, &'static str, &'static OnceLock<Regex>),
}

const OPEN: usize = 1024;

macro_rules! run {
    ($rule:literal, $class:ident, $min:expr, $max:expr, $($prefix:literal)+) => {
        Shape { rule: $rule, prefixes: &[$($prefix),+], tail: Tail::Run(Class::$class, $min, $max) }
    };
}
macro_rules! digits {
    ($rule:literal, $class:ident, $min:expr, $max:expr, $($prefix:literal)+) => {
        Shape { rule: $rule, prefixes: &[$($prefix),+], tail: Tail::RunWithDigit(Class::$class, $min, $max) }
    };
}
macro_rules! alone {
    ($rule:literal, $class:ident, $min:expr, $max:expr, $($prefix:literal)+) => {
        Shape { rule: $rule, prefixes: &[$($prefix),+], tail: Tail::RunAlone(Class::$class, $min, $max) }
    };
}
macro_rules! pattern {
    ($rule:literal, $pattern:literal, $($prefix:literal)+) => {{
        static COMPILED: OnceLock<Regex> = OnceLock::new();
        Shape { rule: $rule, prefixes: &[$($prefix),+], tail: Tail::Pattern($pattern, &COMPILED) }
    }};
}
macro_rules! around {
    ($rule:literal, $back:literal, $pattern:literal, $($prefix:literal)+) => {{
        static COMPILED: OnceLock<Regex> = OnceLock::new();
        Shape { rule: $rule, prefixes: &[$($prefix),+], tail: Tail::Around($back, $pattern, &COMPILED) }
    }};
}

/// All shapes. Where two match the same text, the earlier one gives the name.
#[rustfmt::skip]
pub(crate) static SHAPES: &[Shape] = &[
    // Models.
    run!("anthropic-key", Dashed, 20, OPEN, "sk-ant-"),
    run!("openrouter-key", Dashed, 32, OPEN, "sk-or-v1-" "sk-or-"),
    run!("openai-key", Dashed, 20, OPEN, "sk-proj-" "sk-svcacct-" "sk-admin-" "sk-None-" "sess-"),
    run!("langfuse-key", Dashed, 30, 40, "sk-lf-"),
    digits!("openai-key", Alnum, 20, 128, "sk-"),
    run!("google-api-key", Dashed, 35, 35, "AIza"),
    run!("groq-key", Alnum, 40, 64, "gsk_"),
    run!("xai-key", Alnum, 60, 100, "xai-"),
    run!("perplexity-key", Alnum, 40, 64, "pplx-"),
    digits!("huggingface-token", Alnum, 30, 50, "hf_" "api_org_"),
    digits!("replicate-token", Alnum, 30, 50, "r8_"),
    digits!("fireworks-key", Alnum, 20, 40, "fw_"),
    run!("nvidia-key", Dashed, 50, 100, "nvapi-"),
    run!("langsmith-key", Word, 32, 64, "lsv2_pt_" "lsv2_sk_" "lsv2_"),
    digits!("elevenlabs-key", Hex, 48, 48, "sk_"),
    run!("pinecone-key", Word, 40, 100, "pcsk_"),
    run!("tavily-key", Dashed, 20, 64, "tvly-"),
    digits!("firecrawl-key", Hex, 32, 32, "fc-"),
    run!("jina-key", Alnum, 50, 80, "jina_"),
    run!("e2b-key", Hex, 40, 40, "e2b_"),
    // Forges and continuous integration.
    run!("github-token", Word, 36, 255, "ghp_" "gho_" "ghu_" "ghs_" "ghr_"),
    run!("github-token", Word, 40, 255, "github_pat_"),
    run!("github-token", Hex, 40, 40, "v1."),
    digits!("gitlab-token", Dotted, 16, 320, "glpat-" "gldt-" "glrt-" "glrtr-" "glcbt-" "glptt-" "glft-" "glimt-" "glagent-" "gloas-" "glsoat-" "glffct-" "glwt-"),
    run!("gitlab-token", Dashed, 20, 32, "GR1348941"),
    run!("atlassian-token", Any, 40, 400, "ATATT3" "ATCTT3" "ATOATT3"),
    digits!("bitbucket-token", Alnum, 24, 40, "ATBB"),
    digits!("trello-token", Alnum, 60, 80, "ATTA"),
    run!("circleci-token", Word, 40, 100, "CCIPAT_" "CCIPRJ_"),
    run!("buildkite-token", Alnum, 36, 64, "bkua_" "bkaj_" "bkpat_"),
    digits!("sonar-token", Hex, 40, 40, "sqp_" "squ_" "sqa_"),
    digits!("sourcegraph-token", Word, 40, 100, "sgp_"),
    pattern!("harness-token", r"^pat\.[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}", "pat."),
    run!("snyk-token", Dotted, 40, 160, "snyk_uat." "snyk_sat."),
    run!("depot-token", Alnum, 32, 100, "depot_org_" "depot_project_"),
    // Clouds.
    run!("aws-access-key", Upper, 16, 16, "AKIA" "ASIA" "ABIA" "ACCA"),
    run!("aws-bedrock-key", Base64, 60, 300, "ABSK" "bedrock-api-key-"),
    pattern!("aws-mws-token", r"^amzn\.mws\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "amzn.mws."),
    run!("gcp-token", Dotted, 20, OPEN, "ya29."),
    run!("gcp-oauth-secret", Dashed, 20, 40, "GOCSPX-"),
    digits!("gcp-refresh-token", Dashed, 30, 200, "1//0"),
    around!("azure-client-secret", 4, r"^[A-Za-z0-9~._-]{3}[0-9]Q~[A-Za-z0-9~._-]{31,34}", "Q~"),
    pattern!("azure-storage-key", r"^(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,88}={0,2})", "AccountKey=" "SharedAccessKey="),
    pattern!("azure-sas", r"^sig=((?:[A-Za-z0-9+/_-]|%2[BbFf]|%3[Dd]){40,}={0,2})", "sig="),
    around!("azure-devops-token", 76, r"^[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}", "AZDO"),
    digits!("alibaba-key", Alnum, 16, 26, "LTAI"),
    digits!("tencent-key", Alnum, 32, 36, "AKID"),
    digits!("yandex-key", Dashed, 35, 60, "AQVN"),
    digits!("ibm-openshift-token", Dashed, 43, 43, "sha256~"),
    run!("digitalocean-token", Hex, 64, 64, "dop_v1_" "doo_v1_" "dor_v1_"),
    run!("heroku-key", Dashed, 36, 80, "HRKU-"),
    run!("flyio-token", Any, 40, OPEN, "fm1r_" "fm1a_" "fm2_" "fo1_"),
    digits!("vercel-token", Alnum, 24, 64, "vcp_" "vci_" "vca_" "vcr_" "vck_"),
    digits!("netlify-token", Dashed, 36, 60, "nfp_" "nfc_" "nfo_" "nfb_" "nfu_"),
    run!("cloudflare-token", Dashed, 38, 180, "cfut_" "cfat_" "cfk_"),
    run!("cloudflare-origin-key", Dashed, 140, 200, "v1.0-"),
    digits!("render-key", Alnum, 20, 40, "rnd_"),
    run!("tailscale-key", Dashed, 20, 100, "tskey-"),
    run!("supabase-key", Dashed, 20, 100, "sb_secret_"),
    digits!("supabase-key", Hex, 40, 40, "sbp_" "sbp_oauth_"),
    run!("planetscale-token", Dotted, 30, 80, "pscale_tkn_" "pscale_pw_" "pscale_oauth_"),
    digits!("neon-key", Alnum, 40, 80, "napi_"),
    run!("databricks-token", Hex, 32, 32, "dapi" "dkea" "dose"),
    run!("scaleway-key", Upper, 17, 17, "SCW"),
    // Password hashes, from which the password can be guessed.
    pattern!("password-hash", r"^\$2[abxy]\$[0-9]{2}\$([./A-Za-z0-9]{53})", "$2a$" "$2b$" "$2y$"),
    pattern!("password-hash", r"^\$[156y]\$(?:rounds=[0-9]+\$)?([./A-Za-z0-9]{1,24}\$[./A-Za-z0-9]{22,86})", "$1$" "$5$" "$6$" "$y$"),
    pattern!("password-hash", r"^\$argon2(?:id|i|d)\$v=[0-9]+\$m=[0-9]+,t=[0-9]+,p=[0-9]+\$([A-Za-z0-9+/]{8,90}\$[A-Za-z0-9+/]{20,130})", "$argon2"),
    // Infrastructure.
    run!("vault-token", Dashed, 20, 300, "hvs." "hvb." "hvr."),
    around!("terraform-token", 14, r"^[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{50,80}", ".atlasv1."),
    run!("pulumi-token", Hex, 40, 40, "pul-"),
    pattern!("doppler-token", r"^dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{1,40}\.)?[A-Za-z0-9]{36,50}", "dp."),
    run!("infracost-key", Alnum, 32, 32, "ico-"),
    run!("prefect-key", Alnum, 36, 36, "pnu_" "pnb_"),
    run!("onepassword-token", Dotted, 100, 4000, "ops_eyJ"),
    pattern!("onepassword-key", r"^A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}", "A3-"),
    run!("age-key", Upper, 58, 59, "AGE-SECRET-KEY-1" "AGE-SECRET-KEY-PQ-1"),
    run!("octopus-key", Upper, 26, 36, "API-"),
    run!("artifactory-key", Alnum, 64, 80, "AKCp"),
    run!("artifactory-token", Alnum, 59, 70, "cmVmd"),
    // Registries.
    run!("npm-token", Alnum, 36, 40, "npm_"),
    run!("pypi-token", Dashed, 50, OPEN, "pypi-AgE" "pypi-"),
    alone!("crates-token", Alnum, 32, 32, "cio"),
    run!("rubygems-key", Hex, 48, 48, "rubygems_"),
    digits!("nuget-key", Lower, 43, 43, "oy2"),
    run!("docker-token", Dashed, 24, 40, "dckr_pat_" "dckr_oat_"),
    run!("clojars-token", Hex, 60, 60, "CLOJARS_"),
    // Messaging.
    digits!("slack-token", Dashed, 20, 300, "xoxb-" "xoxp-" "xoxa-" "xoxr-" "xoxs-" "xoxo-" "xoxe-" "xoxe." "xoxc-" "xoxd-" "xapp-"),
    pattern!("slack-webhook", r"^hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{24,100})", "hooks.slack.com/"),
    pattern!("discord-webhook", r"^(?:discord|discordapp)\.com/api/(?:v\d+/)?webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{50,100})", "discord.com/api/" "discordapp.com/api/"),
    pattern!("teams-webhook", r"^webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{60,250})", "webhook.office.com/"),
    around!("telegram-token", 10, r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}", ":AA"),
    run!("twilio-key", Hex, 32, 32, "SK"),
    pattern!("sendgrid-key", r"^SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}", "SG."),
    run!("mailgun-key", Hex, 32, 32, "key-"),
    around!("mailchimp-key", 32, r"^[0-9a-f]{32}-us[0-9]{1,2}", "-us"),
    run!("brevo-key", Dashed, 60, 120, "xkeysib-" "xsmtpsib-"),
    digits!("resend-key", Word, 24, 48, "re_"),
    run!("mailersend-key", Alnum, 60, 80, "mlsn."),
    run!("facebook-token", Alnum, 80, 400, "EAAG" "EAAC" "EAAB" "EAAJ" "EAAD" "EAAK" "EAAM"),
    digits!("twitter-bearer", Any, 60, 120, "AAAAAAAAAAAAAAAAAAAAA"),
    // Payment.
    run!("stripe-key", Alnum, 16, 250, "sk_live_" "sk_test_" "rk_live_" "rk_test_" "sk_org_live_" "sk_org_test_"),
    digits!("webhook-secret", Base64, 24, 80, "whsec_"),
    run!("square-token", Dashed, 22, 60, "sq0atp-" "sq0csp-" "sq0idp-"),
    run!("square-token", Dashed, 56, 64, "EAAA"),
    run!("shopify-token", Hex, 32, 32, "shpat_" "shpca_" "shppa_" "shpss_" "shpua_"),
    pattern!("braintree-token", r"^access_token\$(?:production|sandbox)\$[0-9a-z]{10,20}\$[0-9a-f]{32}", "access_token$"),
    pattern!("plaid-token", r"^access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f-]{27}", "access-"),
    digits!("razorpay-key", Alnum, 14, 24, "rzp_live_" "rzp_test_"),
    run!("flutterwave-key", Dashed, 30, 60, "FLWSECK-" "FLWSECK_TEST-"),
    run!("easypost-key", Alnum, 54, 60, "EZAK" "EZTK"),
    run!("shippo-token", Hex, 40, 40, "shippo_live_" "shippo_test_"),
    // Productivity.
    digits!("linear-key", Alnum, 32, 64, "lin_api_" "lin_oauth_"),
    digits!("notion-token", Alnum, 40, 60, "secret_" "ntn_"),
    digits!("figma-token", Dashed, 36, 60, "figd_" "figo_" "figu_"),
    pattern!("airtable-token", r"^pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "pat"),
    pattern!("asana-token", r"^[12]/[0-9]{12,20}(?:/[0-9]{12,20})?:[0-9a-f]{32}", "1/" "2/"),
    pattern!("clickup-token", r"^pk_[0-9]{6,10}_[A-Z0-9]{32}", "pk_"),
    run!("contentful-token", Dashed, 43, 43, "CFPAT-"),
    pattern!("dropbox-token", r"^sl\.(?:u\.)?[A-Za-z0-9_-]{80,}", "sl."),
    pattern!("hubspot-token", r"^pat-(?:na|eu|ap)[0-9]-[0-9a-f]{8}-[0-9a-f-]{27}", "pat-"),
    run!("postman-key", Dashed, 50, 64, "PMAK-"),
    run!("typeform-token", Dotted, 40, 70, "tfp_"),
    run!("readme-key", Lower, 60, 80, "rdme_"),
    digits!("posthog-key", Alnum, 40, 60, "phx_"),
    pattern!("launchdarkly-key", r"^(?:sdk|api)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "sdk-" "api-"),
    pattern!("mapbox-token", r"^sk\.eyJ[A-Za-z0-9_-]{30,}\.[A-Za-z0-9_-]{16,}", "sk.eyJ"),
    // Monitoring.
    run!("newrelic-key", Dashed, 20, 60, "NRAK-" "NRII-" "NRJS-" "NRRA-" "NRAA-" "NRIQ-"),
    run!("sentry-token", Any, 50, 300, "sntrys_"),
    run!("sentry-token", Hex, 64, 64, "sntryu_"),
    digits!("grafana-token", Word, 40, 60, "glsa_"),
    digits!("grafana-token", Base64, 32, 400, "glc_"),
    run!("grafana-token", Base64, 60, 400, "eyJrIjoi"),
    run!("datadog-key", Alnum, 34, 40, "ddapp_" "ddpat_" "pub_dd"),
    pattern!("dynatrace-token", r"^dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}", "dt0"),
    run!("honeycomb-key", Alnum, 50, 64, "hcaik_" "hcbik_" "hcxik_" "hcamk_"),
    run!("elastic-key", Any, 50, 120, "essu_"),
];

/// The result of examining one hit of a shape.
pub(crate) enum RuleMatch {
    /// A token with this range.
    Token(usize, usize),
    /// No token, and none of this shape before this position.
    NothingBefore(usize),
}

/// The length of text that a pattern may examine.
const WINDOW: usize = 700;

impl Shape {
    /// Examines an occurrence of one of the prefixes, in any case.
    pub(crate) fn at(&self, text: &[u8], prefix: &str, at: usize) -> RuleMatch {
        let nothing = RuleMatch::NothingBefore(at + 1);
        if !text[at..].starts_with(prefix.as_bytes()) {
            return nothing;
        }
        let start = at + prefix.len();
        let (class, min, max, digit) = match &self.tail {
            Tail::Run(class, min, max) => (*class, *min, *max, false),
            Tail::RunWithDigit(class, min, max) | Tail::RunAlone(class, min, max) => {
                (*class, *min, *max, true)
            }
            Tail::Pattern(pattern, compiled) => {
                if !starts_token(text, at) {
                    return nothing;
                }
                let window = &text[at..text.len().min(at + WINDOW)];
                let Some(groups) = compile(pattern, compiled).captures(window) else {
                    return nothing;
                };
                let token = groups.get(1).or(groups.get(0)).map(|group| group.range());
                return match token {
                    Some(token) if !is_stand_in(&window[token.clone()]) => {
                        RuleMatch::Token(at + token.start, at + token.end)
                    }
                    _ => nothing,
                };
            }
            Tail::Around(back, pattern, compiled) => {
                if !text[..at].last().is_some_and(u8::is_ascii_digit) && prefix.starts_with(':') {
                    return nothing;
                }
                let from = at.saturating_sub(*back);
                let window = &text[from..text.len().min(at + 120)];
                return match compile(pattern, compiled).find(window) {
                    Some(token)
                        if token.start() + from <= at
                            && token.end() + from > at
                            && starts_token(text, from + token.start())
                            && !is_stand_in(token.as_bytes()) =>
                    {
                        RuleMatch::Token(from + token.start(), from + token.end())
                    }
                    _ => nothing,
                };
            }
        };
        if !starts_token(text, at) {
            return nothing;
        }
        let mut length = class.run(&text[start..], max + 1);
        if length < min {
            return RuleMatch::NothingBefore(start + length);
        }
        if length > max {
            if max < OPEN {
                return nothing;
            }
            length = class.run(&text[start..], usize::MAX);
        }
        // Punctuation of the surrounding sentence.
        while length > min && b".-_=".contains(&text[start + length - 1]) && class != Class::Base64
        {
            length -= 1;
        }
        let tail = &text[start..start + length];
        if digit && !tail.iter().any(u8::is_ascii_digit) || is_stand_in(tail) {
            return nothing;
        }
        if matches!(self.tail, Tail::RunAlone(..)) && is_in_base64(text, at, start + length) {
            return nothing;
        }
        RuleMatch::Token(at, start + length)
    }
}

/// Returns whether the neighbours of a part of a text can only continue the same base64. An equals sign before it may
/// also be an assignment.
fn is_in_base64(text: &[u8], start: usize, end: usize) -> bool {
    let before = text[..start].last();
    let behind = text.get(end);
    before.is_some_and(|byte| b"+/".contains(byte))
        || behind.is_some_and(|byte| b"+/=".contains(byte))
}

fn compile<'a>(pattern: &str, compiled: &'a OnceLock<Regex>) -> &'a Regex {
    compiled.get_or_init(|| {
        RegexBuilder::new(pattern)
            .unicode(false)
            .build()
            .expect("the table's patterns are valid")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_prefix_is_no_token_amid_base64() {
        let shape = SHAPES.iter().find(|shape| shape.rule == "crates-token");
        let shape = shape.expect("it is in the table");
        let token = format!("cio{}", "Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz9Xc");
        let found = |before: &str, behind: &str| {
            let text = format!("{before}{token}{behind}");
            matches!(
                shape.at(text.as_bytes(), "cio", before.len()),
                RuleMatch::Token(..)
            )
        };
        for (before, behind) in [("", ""), ("TOKEN=", "\n"), (" ", "."), ("\"", "\"")] {
            assert!(found(before, behind), "{before}…{behind}");
        }
        for (before, behind) in [
            ("aGk/", ""),
            ("aGk+", "\n"),
            ("\n", "/aGk"),
            ("", "=="),
            ("", "+"),
        ] {
            assert!(!found(before, behind), "{before}…{behind}");
        }
    }

    #[test]
    fn every_pattern_compiles_and_there_are_many_kinds() {
        let mut rules: Vec<_> = SHAPES.iter().map(|shape| shape.rule).collect();
        for shape in SHAPES {
            if let Tail::Pattern(pattern, compiled) | Tail::Around(_, pattern, compiled) =
                &shape.tail
            {
                compile(pattern, compiled);
            }
        }
        rules.sort_unstable();
        rules.dedup();
        assert!(rules.len() >= 60, "{}", rules.len());
    }
}
