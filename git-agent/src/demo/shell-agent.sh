#!/bin/sh
# An agent without a model: it knows three tasks by heart. Any program can be an agent.
set -e
echo "my task: $GIT_AGENT_PROMPT"
task=$1
if grep -q '^<<<<<<< ' todo; then task=resolve; fi
case "$task" in
resolve)
	echo "both changed the usage line; keeping both commands"
	sed -e '/^<<<<<<< /d' -e '/^||||||| /,/^=======$/d' -e '/^=======$/d' -e '/^>>>>>>> /d' \
		-e "/^usage=.* list | remaining)'/d" -e "s/^\(usage=.* | wipe\))'/\1 | remaining)'/" todo >todo.new
	cat todo.new >todo && rm todo.new
	./todo add one
	./todo remaining
	./todo wipe
	./todo remaining
	exit
	;;
wipe | remaining)
	# The colleague begins a moment later.
	until [ "$(git worktree list | wc -l)" -ge 3 ]; do sleep 0.1; done
	sleep 1
	case "$1" in
	wipe) body=': >"$list"' ;;
	remaining) body='echo "$(wc -l <"$list") left"' ;;
	esac
	echo "editing the usage line and adding the command"
	sed -e "s/ | list)'/ | list | $1)'/" -e "/^\*)/i\\
$1) $body ;;" todo >todo.new
	cat todo.new >todo && rm todo.new
	echo "trying it"
	./todo add "try $1"
	./todo "$1"
	./todo add "show $1 to a person"
	git commit --quiet --all --message "todo: add $1"
	;;
*)
	echo "I do not know how to do '$1'" >&2
	exit 1
	;;
esac
git log -1 --format='committed %h %s'
