#!/usr/bin/env bash
# A review from the first prompt to the merge, with a real agent and the scripted model: the agent writes, two comments go
# back to it in one prompt, it changes what they say in the same conversation, and the approved work lands.
#
#   tests/matrix/loop.sh [AGENT...]        default: those of kilo, opencode, gemini and goose that are installed
#
# The variables are those of lab.sh.
set -u
agents=("$@")
[ $# -gt 0 ] || agents=(kilo opencode gemini goose)
. "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# Runs the whole loop for one agent, in its repository.
loop() {
    local agent=$1 file
    git agent new --name poem --agent "$agent" \
        "Write a poem [[bash: printf 'roses are red\\nviolets are blue\\nthe end\\n' > poem.txt]]" >/dev/null || fail "not made" || return
    rest poem
    in_state poem ready || fail "$(field poem state): $(field poem exit.reason)" || return
    git agent review diff poem | grep -q '^+violets are blue' || fail "the diff does not show it" || return
    git agent review comment poem poem.txt:1 -m "louder [[bash: sed -i 's/red/RED/' poem.txt]]" >/dev/null || fail "no first comment" || return
    git agent review comment poem poem.txt:2 -m "louder too [[bash: sed -i 's/blue/BLUE/' poem.txt]]" >/dev/null || fail "no second comment" || return
    git agent review send poem >/dev/null || fail "not sent" || return
    rest poem
    told poem turn=2 || fail "another conversation: $(field poem state): $(field poem exit.reason)" || return
    file=$(field poem worktree)/poem.txt
    [ "$(cat "$file")" = "$(printf 'roses are RED\nviolets are BLUE\nthe end')" ] || fail "the comments were not heeded: $(tr '\n' '/' <"$file")" || return
    git agent review diff --since-review --no-comments poem >"$lab/since" || fail "no diff since the review" || return
    grep -q '^+violets are BLUE' "$lab/since" && ! grep -q '^+the end' "$lab/since" || fail "the diff since the review is another" || return
    git agent review approve poem >/dev/null || fail "not approved" || return
    git agent merge --into main --yes poem >/dev/null || fail "not merged" || return
    git show main:poem.txt | cmp -s - <(printf 'roses are RED\nviolets are BLUE\nthe end\n') || fail "main has another poem" || return
    in_state poem merged || fail "$(field poem state), not merged" || return
    await 5 no_survivors "$(field poem id)" || fail "left processes" || return
    echo ok
}

status=0
for agent in "${agents[@]}"; do
    if ! command -v "$agent" >/dev/null; then
        printf '%-10s not installed\n' "$agent"
        continue
    fi
    furnish "$agent" dummy
    make_repository "$agent"
    began=$SECONDS
    answer=$(loop "$agent" 2>>"$lab/$agent/errors") || status=1
    printf '%-10s %4ss  %s\n' "$agent" "$((SECONDS - began))" "$answer"
    cd "$lab" || exit 1
done
exit "$status"
