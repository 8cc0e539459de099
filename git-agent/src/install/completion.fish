# Completion of "git agent" for fish. It belongs into a conf.d directory.

function __git_agent_offered
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l agent (contains -i -- agent $words)
    or return
    set -l offered (git agent __complete $words[(math $agent + 1)..-1] "$typed" 2>/dev/null)
    if set -q offered[1]
        printf '%s\n' $offered
    else
        __fish_complete_path "$typed"
    end
end

complete -c git -f -n __fish_git_needs_command -a agent -d 'Run coding agents, each on its own branch'
complete -c git -f -n '__fish_git_using_command agent' -a '(__git_agent_offered)'
