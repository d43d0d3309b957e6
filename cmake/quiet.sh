#!/bin/sh
# usage: quiet.sh LOG PROGRAM [ARGUMENT ...]    what the program prints goes into a file, and is shown when it fails
log=$1
shift
"$@" >"$log" 2>&1 && exit
result=$?
cat "$log" >&2
exit $result
