#!/bin/sh
# usage: check_file_lists.sh ROOT
# The pages docs/add-*.md list the files to touch in tables. Every file named in a first column must exist; names with a
# <placeholder> are for the reader to fill in.
cd "$1" || exit 1
bad=0 seen=0
for page in docs/add-*.md; do
  [ -f "$page" ] || continue
  for file in $(sed -n 's/^| *`\([^`<>]*\)`.*/\1/p' "$page"); do
    seen=$((seen + 1))
    [ -e "$file" ] || { echo "$page: no such file: $file"; bad=1; }
  done
done
echo "$seen files named"
[ "$seen" -gt 0 ] && [ "$bad" -eq 0 ]
