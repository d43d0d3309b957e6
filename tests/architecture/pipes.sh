#!/bin/sh
# usage: pipes.sh SOURCE
# No shell script pipes into a command that may stop reading early: under `pipefail` the writer then dies of SIGPIPE, once
# in many runs, and what was found counts as a failure. Scripts read the whole output into a variable instead.
cd "$1" || exit 1
early='(^|[^|])\|[[:space:]]*(grep[[:space:]]+(-[a-zA-Z]*[qm]|--quiet|--max-count)|head([[:space:]]|$)|sed[[:space:]][^|]*[0-9/]q)'
for line in "ldd x | grep -q y" "a |grep -Eq b" "a | head -n 1" "a | sed -n '1p;2q'" "a | grep -m1 b"; do
  echo "$line" | grep -E "$early" >/dev/null || { echo "does not notice: $line"; exit 1; }
done
for line in "grep -q y x" "a || grep -q b c" "head -n 1 x" "a | grep -v '^#'" "a | tail -n 1"; do
  if echo "$line" | grep -E "$early" >/dev/null; then echo "is not early: $line"; exit 1; fi
done
scripts=$(grep -rlE '^#!.*\b(bash|sh)\b|pipefail' .ci scripts gpu tests --include='*.sh' --include='run' --include='test' \
  --include='get-*' --include='install-*')
[ "$(echo "$scripts" | wc -l)" -gt 10 ] || { echo "found too few scripts:"; echo "$scripts"; exit 1; }
# shellcheck disable=SC2086
found=$(grep -nE "$early" $scripts | grep -v -e 'tests/architecture/pipes.sh:' -e '^[^:]*:[0-9]*:[[:space:]]*#')
[ -z "$found" ] || { echo "$found"; exit 1; }
