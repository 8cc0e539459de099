#compdef git-agent
#description run coding agents, each on its own branch in its own worktree
# Completion of "git agent" for zsh. zsh's own completion of git calls it when it is in a directory of fpath.

local -a offered
local line word
for line in "${(@f)$(git agent __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
	[[ -n $line ]] || continue
	word=${line%%$'\t'*}
	offered+=("${word//:/\\:}:${line#*$'\t'}")
done
if (( $#offered )); then
	_describe -t git-agent 'git agent' offered
else
	_files
fi
