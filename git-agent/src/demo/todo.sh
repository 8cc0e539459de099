#!/bin/sh
# todo: a list of things to do, kept in .todo beside this file
list=${0%/*}/.todo
usage='usage: todo (add <text> | list)'
case "$1" in
add)
	shift
	echo "$*" >>"$list"
	;;
list)
	cat "$list"
	;;
*) echo "$usage" ;;
esac
