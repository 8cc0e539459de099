# Completion of "git agent" for bash. git's own completion calls this function; it must be loaded.

_git_agent ()
{
	local offered
	offered="$(__git agent __complete "${words[@]:__git_cmd_idx+1:cword-__git_cmd_idx}" | cut -f1)"
	case "$cur" in
	--*=*)
		__gitcomp_nl "$(printf '%s\n' "$offered" | sed 's/^--[^=]*=//')" "" "${cur#*=}"
		;;
	*)
		__gitcomp_nl "$offered"
		;;
	esac
}
