#!/usr/bin/env bash
# Drives the real agents that are installed through `git agent`, with the scripted model of this directory's package on
# loopback, and prints what held. Nothing of the user is seen: every agent gets a home, a repository and dummy keys of its own.
#
#   tests/matrix/agents.sh [AGENT...]        claude codex kilo opencode gemini qwen goose copilot cline aider; pi cn when named
#   tests/matrix/agents.sh --together [AGENT...]      all at the same time in one repository, each with a marker of its own
#
#   CASES         which columns (default: those up to 500): new send kill stream tool 401 429once 429 500, and fork, 413, dead
#
# The other variables are those of lab.sh.
set -u
all=(claude codex kilo opencode gemini qwen goose copilot cline aider)
together=
if [ "${1:-}" = --together ]; then
    together=1
    shift
fi
agents=("$@")
[ $# -gt 0 ] || agents=("${all[@]}")
read -ra cases <<<"${CASES:-new send kill stream tool 401 429once 500 429}"
. "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

case_new() {
    local agent=$1 shell='[[bash: touch ran]]' tree
    [ "$agent" = aider ] && shell=
    git agent new --name work --agent "$agent" "Please [[write out.txt: hello]] $shell" >/dev/null || fail "not made" || return
    rest work
    [ "$(field work state)" = ready ] || fail "$(field work state): $(field work exit.reason)" || return
    tree=$(field work worktree)
    grep -q hello "$tree/out.txt" 2>/dev/null || fail "no file" || return
    told work turn=1 || fail "no text" || return
    [ -e "$tree/ran" ] || fail "no command" || return
    if [ "$agent" = pi ] || [ "$agent" = cn ]; then
        echo "ok, text only, no usage"
    elif [ -n "$shell" ]; then
        [ "$(events work tool_call)" -ge 2 ] || fail "no tool calls" || return
        [ "$(events work tool_result)" -ge 2 ] || fail "no results" || return
        [ "$(events work usage)" -ge 1 ] && echo ok || echo "ok, no usage"
    else
        [ "$(events work edit)" -ge 1 ] || fail "no edit" || return
        [ "$(events work usage)" -ge 1 ] && echo "ok, text only" || echo "ok, text only, no usage"
    fi
}

case_send() {
    git agent send work "Again [[usage 500 10]]" >/dev/null || fail "not sent" || return
    rest work
    told work turn=2 && echo ok || fail "$(field work state): $(field work exit.reason)"
}

case_kill() {
    local pid
    git agent send work "Slowly [[slow 40]] [[say: never]]" >/dev/null
    await 180 asked '"text":"never"' || fail "never asked" || return
    pid=$(field work pid)
    kill -9 "$pid" || fail "no supervisor" || return
    await 30 in_state work interrupted || fail "$(field work state), not interrupted" || return
    git agent restart work -m "Go on [[slow 0]] [[say: Done. turn={turn}]]" >/dev/null || fail "not restarted" || return
    rest work
    told work turn=4 && echo "ok, turn=4" && return
    told work turn=3 && echo "ok, turn=3" || fail "$(field work state): $(field work exit.reason)"
}

stop_it() {
    local sid=$1 name=$2
    git agent stop "$name" >/dev/null || fail "not stopped" || return
    [ "$(field "$name" state)" = stopped ] || fail "$(field "$name" state)" || return
    await 5 no_survivors "$sid" || fail "left $(survivors "$sid" | wc -l) processes" || return
    echo ok
}

case_stream() {
    git agent new --name stream --agent "$1" "Slowly [[slow 60]] [[say: stream marker]]" >/dev/null || fail "not made" || return
    await 180 asked '"text":"stream marker"' || fail "never asked" || return
    stop_it "$(field stream id)" stream
}

case_tool() {
    [ "$1" = aider ] && echo "no tool" && return
    git agent new --name tool --agent "$1" 'Run [[bash: echo $$ > shell.pid; sleep 300]]' >/dev/null || fail "not made" || return
    local tree pid
    tree=$(field tool worktree)
    await 180 test -s "$tree/shell.pid" || fail "never ran" || return
    pid=$(cat "$tree/shell.pid")
    stop_it "$(field tool id)" tool >"$lab/stopped" || { cat "$lab/stopped"; return; }
    [ ! -e "/proc/$pid" ] && echo ok || fail "the shell lives"
}

# A teammate with a clone, a home and nothing of the agent's own goes on with the conversation: `new` was before.
case_fork() {
    local agent=$1 mine=$repository shared=$lab/$1/shared.git answer
    case $agent in
    claude | codex | gemini | kilo) ;;
    *) echo "no fork" && return ;;
    esac
    # One that keeps conversations in a database is asked for them only by those who want that.
    git config agent.keepConversations all
    git agent send work "Keep [[say: kept, turn={turn}]]" >/dev/null || fail "not sent" || return
    rest work
    # What an agent has to say about a conversation is kept when its supervisor ends.
    await 120 alone work || fail "its supervisor stays" || return
    told work "kept, turn=" || fail "$(field work state): $(field work exit.reason)" || return
    git agent commit work >/dev/null || fail "not committed" || return
    git init -q --bare -b main "$shared"
    git remote add origin "$shared"
    git push -q origin main && git agent push --yes origin >/dev/null || fail "not pushed" || return
    local person=mate
    furnish "$agent" dummy
    git clone -q "$shared" "$lab/$agent/mate-repo" && cd "$lab/$agent/mate-repo" || fail "not cloned" || return
    git config user.name "A Mate"
    git config user.email mate@example.com
    answer=$(teammate "$agent" "$mine")
    cd "$mine" || return
    person=home
    furnish "$agent" dummy
    echo "$answer"
    [[ $answer != *FAIL* ]]
}

alone() {
    [ -z "$(field "$1" pid)" ]
}

teammate() {
    local agent=$1 tree
    git agent fetch >/dev/null || fail "not fetched" || return
    git agent fork --conversation --agent "$agent" --name mine work "Now [[write forked.txt: there]]" >/dev/null || fail "not made" || return
    rest mine
    [ "$(field mine state)" = ready ] || fail "$(field mine state): $(field mine exit.reason)" || return
    tree=$(field mine worktree)
    grep -q there "$tree/forked.txt" 2>/dev/null || fail "no file" || return
    grep -q hello "$tree/out.txt" 2>/dev/null || fail "not the work" || return
    [ ! -e "$2-worktrees/work/forked.txt" ] || fail "wrote elsewhere" || return
    ! told mine turn=1 || fail "a new conversation" || return
    git agent send mine "More [[say: more turn={turn}]]" >/dev/null || fail "not sent" || return
    rest mine
    told mine "more turn=4" && echo "ok, turn=4" && return
    told mine "more turn=5" && echo "ok, turn=5" || fail "$(field mine state): $(field mine exit.reason)"
}

# A prompt that the model answers with a status: which state and words follow.
trouble() {
    local agent=$1 name=$2 script=$3 state=$4 words=$5 reason
    git agent new --name "$name" --agent "$agent" "Try $script" >/dev/null || fail "not made" || return
    rest "$name" 600s
    reason=$(field "$name" exit.reason)
    [ "$(field "$name" state)" = "$state" ] || fail "$(field "$name" state): $reason" || return
    [[ $reason == *$words* ]] || fail "$reason" || return
    await 5 no_survivors "$(field "$name" id)" || fail "left processes" || return
    echo "ok${words:+: ${reason:0:60}}"
}

case_401() {
    furnish "$1" bad-key
    trouble "$1" refused "[[usage 1 1]]" failed "not logged in, or a bad key"
    furnish "$1" dummy
}

case_429once() { trouble "$1" once "[[http 429 x1]] [[say: after the limit]]" ready ""; }
case_429() { trouble "$1" limited "[[http 429]]" failed "rate limit"; }
case_413() { trouble "$1" large "[[http 413]]" failed "the conversation is too long for the model"; }
case_500() { trouble "$1" broken "[[http 500]]" failed "the model's service failed"; }

# The model's server is not there at all.
case_dead() {
    local there=$url
    url=http://127.0.0.1:9
    furnish "$1" dummy
    trouble "$1" unreached "[[say: never]]" failed "the model's service failed"
    url=$there
    furnish "$1" dummy
}

# All agents at once: every transcript has its own marker and nobody else's, and no key.
work_together() {
    local agent other status=0 answer
    export HOME=$lab/together/home
    forget
    make_repository together
    git config agent.maxParallel "${#agents[@]}"
    git config agent.stuckAfter 10m
    for agent in "${agents[@]}"; do
        furnish "$agent" "Zq8Lr2Vw9pXk4Tn7Yb3Hd6Gs"
    done
    for agent in "${agents[@]}"; do
        git agent new --name "$agent" --agent "$agent" \
            "Please [[write out.txt: marker-$agent]] [[bash: echo marker-$agent; env | grep -i key]] [[say: marker-$agent done]]" >/dev/null
    done
    for agent in "${agents[@]}"; do
        rest "$agent" 900s
        answer=ok
        [ "$(field "$agent" state)" = ready ] || answer="FAIL: $(field "$agent" state): $(field "$agent" exit.reason)"
        grep -q "marker-$agent" "$(field "$agent" worktree)/out.txt" 2>/dev/null || answer="$answer, FAIL: no file"
        told "$agent" "marker-$agent" || answer="$answer, FAIL: no text"
        for other in "${agents[@]}"; do
            [ "$other" = "$agent" ] && continue
            git agent log --raw "$agent" | grep -q "marker-$other" && answer="$answer, FAIL: heard $other"
        done
        git agent log --raw "$agent" | grep -q Zq8Lr2Vw9pXk4Tn7 && answer="$answer, FAIL: told the key"
        [[ $answer == *FAIL* ]] && status=1
        printf '%-10s %5ss  %s\n' "$agent" "$(field "$agent" elapsed_seconds)" "$answer"
    done
    return "$status"
}

if [ -n "$together" ]; then
    mkdir -p "$lab/together"
    work_together
    exit
fi

report=$lab/report
: >"$report"
status=0
for agent in "${agents[@]}"; do
    if ! command -v "$agent" >/dev/null; then
        printf '%-10s not installed\n' "$agent" | tee -a "$report"
        continue
    fi
    furnish "$agent" dummy
    make_repository "$agent"
    for name in "${cases[@]}"; do
        began=$SECONDS
        rm -f .git/agents/cooldown/*
        : >"$lab/model.log"
        answer=$("case_$name" "$agent" 2>>"$lab/$agent/errors") || status=1
        printf '%-10s %-8s %4ss  %s\n' "$agent" "$name" "$((SECONDS - began))" "$answer" | tee -a "$report"
    done
    cd "$lab" || exit 1
done

printf '\n| agent |'
printf ' %s |' "${cases[@]}"
printf '\n|---|'
printf -- '---|%.0s' "${cases[@]}"
printf '\n'
for agent in "${agents[@]}"; do
    printf '| %s |' "$agent"
    for name in "${cases[@]}"; do
        line=$(grep -E "^$agent +$name " "$report")
        case $line in
        *FAIL*) printf ' no |' ;;
        "") printf ' - |' ;;
        *"no tool"* | *"text only"*) printf ' (ok) %s |' "$(awk '{print $3}' <<<"$line")" ;;
        *) printf ' ok %s |' "$(awk '{print $3}' <<<"$line")" ;;
        esac
    done
    printf '\n'
done
exit "$status"
