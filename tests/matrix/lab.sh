# What the scripts of this directory share: the scripted model on loopback, and for every agent a home, a repository and
# dummy keys of its own. Sourced after `agents` was set; nothing of the user is seen.
#
#   AGENTS_PATH   directories where the agents are, before PATH's own
#   PROGRAMS      directory with git-agent and fake-model (default: target/debug of this workspace)
#   KEEP          a directory to keep homes, repositories and logs in (default: one that is removed)
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs=${PROGRAMS:-$top/target/debug}
lab=${KEEP:-$(mktemp -d)}
mkdir -p "$lab"
lab=$(cd "$lab" && pwd)
export PATH=$programs:${AGENTS_PATH:+$AGENTS_PATH:}$PATH
together=${together:-}

"$programs/fake-model" --port-file "$lab/port" --log "$lab/model.log" 2>/dev/null &
model=$!
leave() {
    kill "$model" 2>/dev/null
    [ -n "${KEEP:-}" ] || rm -rf "$lab"
}
trap leave EXIT
until [ -s "$lab/port" ]; do sleep 0.1; done
url=http://127.0.0.1:$(cat "$lab/port")

# Whatever agents would take from the user's own variables.
forget() {
    unset "${!ANTHROPIC_@}" "${!OPENAI_@}" "${!GEMINI_@}" "${!GOOGLE_@}" "${!KILO_@}" "${!OPENCODE_@}" "${!GOOSE_@}" \
        "${!COPILOT_@}" "${!CLINE_@}" "${!AIDER_@}" "${!CLAUDE_@}" "${!CODEX_@}" "${!PI_@}" "${!CONTINUE_@}" "${!XDG_@}" 2>/dev/null
}

# Settings that only the agent can be given by a file, and the variables it is started with. Another `person` has another home.
furnish() {
    local agent=$1 key=$2
    if [ -z "$together" ]; then
        export HOME=$lab/$agent/${person:-home}
        forget
    fi
    mkdir -p "$HOME"
    local provider='"fake":{"npm":"@ai-sdk/openai-compatible","name":"Fake","options":{"baseURL":"'$url'/v1","apiKey":"'$key'"},"models":{"fake-model":{"name":"Fake","limit":{"context":100000,"output":8000},"cost":{"input":1,"output":2}}}}'
    local settings='{"share":"disabled","autoupdate":false,"model":"fake/fake-model","small_model":"fake/fake-model","provider":{'$provider'}}'
    case $agent in
    claude)
        export ANTHROPIC_BASE_URL=$url ANTHROPIC_API_KEY=$key IS_SANDBOX=1
        ;;
    codex)
        export OPENAI_API_KEY=$key
        mkdir -p "$HOME/.codex"
        cat >"$HOME/.codex/config.toml" <<TOML
model = "gpt-6.1-sol"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "$url/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
TOML
        ;;
    kilo)
        export KILO_CONFIG_CONTENT=$settings KILO_DISABLE_MODELS_FETCH=1 KILO_DISABLE_DEFAULT_PLUGINS=1 KILO_DISABLE_LSP_DOWNLOAD=1
        ;;
    opencode)
        export OPENCODE_CONFIG_CONTENT=$settings OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1
        ;;
    gemini)
        export GOOGLE_GEMINI_BASE_URL=$url GEMINI_API_KEY=$key
        mkdir -p "$HOME/.gemini"
        echo '{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"disableAutoUpdate":true,"disableUpdateNag":true}}' >"$HOME/.gemini/settings.json"
        ;;
    qwen)
        export OPENAI_API_KEY=$key OPENAI_BASE_URL=$url/v1 OPENAI_MODEL=fake-model
        mkdir -p "$HOME/.qwen"
        echo '{"security":{"auth":{"selectedType":"openai"}},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"enableAutoUpdate":false,"disableAutoUpdate":true}}' >"$HOME/.qwen/settings.json"
        ;;
    goose)
        export GOOSE_PROVIDER=openai GOOSE_MODEL=gpt-4o OPENAI_HOST=$url OPENAI_API_KEY=$key GOOSE_MODE=auto GOOSE_DISABLE_KEYRING=1
        ;;
    copilot)
        export COPILOT_OFFLINE=true COPILOT_PROVIDER_BASE_URL=$url/v1 COPILOT_PROVIDER_API_KEY=$key COPILOT_MODEL=gpt-4.1
        ;;
    cline)
        export CLINE_API_KEY=$key CLINE_PROVIDER=openai-compatible CLINE_MODEL=fake-model
        mkdir -p "$HOME/.cline/data/settings"
        echo '{"version":1,"lastUsedProvider":"openai-compatible","modes":{},"providers":{"openai-compatible":{"settings":{"provider":"openai-compatible","apiKey":"'"$key"'","model":"fake-model","baseUrl":"'"$url"'/v1"},"updatedAt":"2026-01-01T00:00:00.000Z","tokenSource":"manual"}}}' >"$HOME/.cline/data/settings/providers.json"
        ;;
    aider)
        # It runs no command that a model suggests unless a person says yes to it, only those it was told of before.
        export OPENAI_API_BASE=$url/v1 OPENAI_API_KEY=$key AIDER_EDIT_FORMAT=diff AIDER_MODEL=openai/fake-model \
            AIDER_AUTO_TEST=true AIDER_TEST_CMD='touch ran'
        ;;
    pi)
        export PI_OFFLINE=1
        mkdir -p "$HOME/.pi/agent"
        echo '{"providers":{"fake":{"baseUrl":"'"$url"'/v1","api":"openai-completions","apiKey":"'"$key"'","models":[{"id":"fake-model"}]}}}' >"$HOME/.pi/agent/models.json"
        echo '{"defaultProvider":"fake","defaultModel":"fake-model"}' >"$HOME/.pi/agent/settings.json"
        ;;
    cn)
        mkdir -p "$HOME/.continue"
        cat >"$HOME/.continue/config.yaml" <<YAML
name: fake
version: 1.0.0
schema: v1
models:
  - name: fake
    provider: openai
    model: fake-model
    apiBase: $url/v1
    apiKey: $key
    roles: [chat, edit, apply]
    capabilities: [tool_use]
YAML
        ;;
    esac
}

make_repository() {
    local agent=$1
    repository=$lab/$agent/repo
    rm -rf "$repository" "$repository-worktrees"
    git init -q -b main "$repository"
    cd "$repository" || exit 1
    git config user.name "A Person"
    git config user.email person@example.com
    git config agent.stuckAfter 5m
    git config agent.whenStuck stop
    git config agent.retries 1
    echo '# a project' >README.md
    git add . && git commit -q -m 'a project'
}

# Says one field of a session; a dot goes deeper.
field() {
    git agent list --all --json | python3 -c '
import json, sys
name, path = sys.argv[1:]
for session in json.load(sys.stdin)["sessions"]:
    if session["name"] == name:
        for key in path.split("."):
            session = (session or {}).get(key)
        print("" if session is None else session)
' "$1" "$2"
}

# Says how many events of a kind a session has.
events() {
    git agent log --raw "$1" | python3 -c '
import json, sys
print(sum(e["type"] == sys.argv[1] for e in map(json.loads, sys.stdin)))
' "$2"
}

# Says the processes that carry a session's mark.
survivors() {
    local sid=$1 file
    for file in /proc/[0-9]*/environ; do
        if grep -zqx "GIT_AGENT_SESSION=$sid" "$file" 2>/dev/null; then
            file=${file#/proc/}
            echo "${file%/environ}"
        fi
    done
}

await() {
    local seconds=$1 tries
    shift
    for ((tries = seconds * 5; tries > 0; tries--)); do
        "$@" && return 0
        sleep 0.2
    done
    return 1
}

rest() {
    git agent wait --timeout "${2:-300s}" "$1" >/dev/null 2>&1
    true
}

asked() {
    grep -q -- "$1" "$lab/model.log"
}

in_state() {
    [ "$(field "$1" state)" = "$2" ]
}

no_survivors() {
    [ -z "$(survivors "$1")" ]
}

# Whether the agent said a text; a message may be recorded in pieces.
told() {
    git agent log --raw "$1" | python3 -c '
import json, sys
events = [e for e in map(json.loads, sys.stdin) if e["type"] not in ("usage", "set", "snapshot")]
said = "".join(e["text"] if e["type"] in ("assistant", "output") else "\0" for e in events)
sys.exit(sys.argv[1] not in said)
' "$2"
}

fail() {
    echo "FAIL: $*"
    return 1
}

