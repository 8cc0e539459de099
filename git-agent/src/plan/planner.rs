//! A plan made by an agent: one read-only session, whose answer is checked and asked for again at most twice.

use std::time::{Duration, Instant};

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::event_words::Sender;
use crate::model::plan::read::{self, LARGEST};
use crate::model::plan::{MOST_PARTS, Plan};
use crate::model::session::{Session, SessionId, State};
use crate::plan::source::{self, ORCHESTRATOR};
use crate::review::ai;
use crate::session::control;
use crate::session::create::{Options, choose_agent, start};
use crate::session::events::wait::{self, WaitOutcome, Wish};
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::prompts;

/// How often an answer that is not a plan is sent back.
const AGAIN: usize = 2;
/// How long a planner may take for one answer, unless its turn has a shorter limit.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How many problems are sent back.
const PROBLEMS: usize = 20;

/// Returns the agent that would plan; an error if there is none.
pub fn agent(context: &Context<'_>) -> Result<choose_agent::Chosen> {
    let role = has_role(context).then_some(ORCHESTRATOR);
    let wish = choose_agent::AgentChoice {
        role,
        ..choose_agent::AgentChoice::default()
    };
    choose_agent::choose(&context.config, context.env, &wish)
}

fn has_role(context: &Context<'_>) -> bool {
    let roles = context.config.names("agent-role");
    roles.iter().any(|role| role == ORCHESTRATOR)
}

/// Lets an agent split a task into parts. `tell` is told what happens.
pub fn plan(context: &Context<'_>, task: &str, tell: &mut dyn FnMut(String)) -> Result<Plan> {
    let chosen = agent(context)?;
    let options = Options {
        task: prompt(context, task),
        name: Some(ai::free_name(context, "plan", task)?),
        agent: chosen.name.clone(),
        model: chosen.model,
        role: has_role(context).then(|| ORCHESTRATOR.to_owned()),
        read_only: true,
        ..Options::default()
    };
    let created = start::start(context, &options)?;
    let session = created.session.clone();
    let name = session.name.clone();
    tell(format!("{} plans in session '{name}'", chosen.name));
    let start = session.base.clone();
    let planned = ask(context, &session, tell);
    control::stop::end(context, session.sid, "the plan is made")?;
    let start = context
        .repo
        .parse_id(start.as_deref().unwrap_or_default())?;
    let latest = context.store.session(session.sid)?.unwrap_or(session);
    ai::put_away(context, &latest, start, "the plan is made")?;
    planned.map_err(|error| error.hint(format!("git agent log {}", shell_word(name))))
}

fn ask(context: &Context<'_>, session: &Session, tell: &mut dyn FnMut(String)) -> Result<Plan> {
    for attempt in 0.. {
        let text = answer(context, session.sid)?;
        let problems = match read_answer(&text) {
            Ok(plan) => match plan.check() {
                problems if problems.is_empty() => return Ok(plan),
                problems => problems.iter().map(ToString::to_string).collect(),
            },
            Err(error) => vec![error.with_causes()],
        };
        if attempt == AGAIN {
            let first = problems.first().cloned().unwrap_or_default();
            return Err(Error::fatal(format!(
                "no usable plan after {} answers: {first}",
                AGAIN + 1
            ))
            .hint("write the plan yourself: git agent start --plan FILE"));
        }
        tell(format!("the plan is not usable: {}", problems[0]));
        let list: Vec<String> = problems
            .iter()
            .take(PROBLEMS)
            .map(|problem| format!("- {problem}"))
            .collect();
        let message = Message::Prompt {
            text: format!(
                "This is not a plan that can be carried out:\n{}\nAnswer with the whole corrected plan, as one JSON object.",
                list.join("\n")
            ),
            from: Sender::Plan,
            again: false,
        };
        prompts::send(context, session.sid, &message)?;
    }
    Err(Error::fatal("no plan"))
}

/// Waits for the end of the planner's turn, and returns its answer.
fn answer(context: &Context<'_>, sid: SessionId) -> Result<String> {
    let wish = Wish {
        states: vec![State::Ready],
        any: false,
        fail_fast: false,
        deadline: Some(Instant::now() + PATIENCE),
    };
    match wait::wait(context, &[sid], &wish, &|_| {})? {
        WaitOutcome::Reached(_) => ai::answer(context, sid),
        WaitOutcome::TimedOut(_) => Err(Error::fatal("the planner took too long")),
        WaitOutcome::Ended(sessions) => {
            let reason = sessions
                .first()
                .and_then(|session| session.exit.as_ref())
                .map_or("", |exit| exit.reason.as_str());
            Err(Error::fatal(format!("the planner failed: {reason}")))
        }
    }
}

/// Reads the plan in an answer: the last JSON object that is one.
fn read_answer(text: &str) -> Result<Plan> {
    if text.len() as u64 > LARGEST {
        let most = LARGEST >> 20;
        return Err(Error::fatal(format!(
            "the answer is longer than {most} MiB"
        )));
    }
    let mut last = Err(Error::fatal("the answer holds no JSON object"));
    let mut at = 0;
    while let Some(found) = text[at..].find('{') {
        at += found;
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter();
        match values.next() {
            Some(Ok(value)) => {
                let read = read::read_value(value);
                // A later object counts only if it is a plan, or nothing was one before.
                if read.as_ref().is_ok_and(|plan| !plan.parts.is_empty()) || last.is_err() {
                    last = read;
                }
                at += values.byte_offset().max(1);
            }
            _ => at += 1,
        }
    }
    last
}

fn prompt(context: &Context<'_>, task: &str) -> String {
    let mut text = format!(
        "Split a task into parts that several coding agents can do at the same time, each on a branch of its own. You only \
         plan: this worktree is read-only. Read what you need to know where the borders are. Use as few parts as the task \
         needs, rarely more than five and never more than {MOST_PARTS}; parts that change the same files belong together or \
         depend on each other. A part starts from the finished work of the parts it depends on.\n\n\
         Answer with one JSON object and nothing after it:\n\n\
         {{\"version\": 1, \"name\": \"short-name\", \"agents\": [{{\"name\": \"part-name\", \"role\": \"role\", \"task\": \
         \"what to do, complete in itself\", \"dependsOn\": [\"other-part\"], \"directory\": \"path\", \"files\": [\"path or \
         pattern\"], \"produces\": [\"file-name\"], \"consumes\": [\"part/file-name\"]}}]}}\n\n\
         Only 'name' and 'task' are required. Names have letters, digits and '-'. Paths are inside the repository.\n"
    );
    let roles = source::roles(context);
    if !roles.is_empty() {
        text += "\nRoles:\n";
        for role in roles {
            let words = source::of_role(context, &role, "description").unwrap_or_default();
            text += &format!("- {role}: {words}\n");
        }
    }
    text + &format!("\nThe task:\n\n{task}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_found_in_an_answer() {
        let text = "I looked at {this}.\n```json\n{\"agents\": [{\"name\": \"a\", \"task\": \"x\"}]}\n```\nDone {\"a\": 1}";
        let plan = read_answer(text).expect("a plan");
        assert_eq!(plan.parts.len(), 1);
        assert!(read_answer("no plan at all").is_err());
        assert!(read_answer(&"{".repeat(1000)).is_err());
    }
}
