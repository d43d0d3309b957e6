#!/bin/sh
# usage: names.sh SOURCE
# Architecture names stand in src/models/architectures.inc and in the architecture's own file, nowhere else: other code
# works with fields. Allowed besides:
#   src/format/hyper_keys.cpp  the table of architectures whose files pair neighbours in RoPE (a fact of the format)
#   src/format/tokenizer_keys.cpp    families of tokenizers that files tell by a model's name alone
#   src/text/                  the same words as names of tokenizers; the word "architecture" must not occur there
cd "$1" || exit 1
list=src/models/architectures.inc
bad=0 seen=0
names=$(sed -n 's/^LLMINFER_ARCHITECTURE("\([^"]*\)", *\([a-z0-9_]*\))$/\1:\2/p' $list)
folders="src include examples bench"
[ -d cuda ] && folders="$folders cuda"
for entry in $names; do
  seen=$((seen + 1))
  name=${entry%%:*} own=src/models/${entry##*:}.cpp
  [ -f "$own" ] || { echo "$list: no file $own"; bad=1; }
  found=$(grep -rnF "\"$name\"" $folders --include='*.cpp' --include='*.h' --include='*.hpp' --include='*.inc' \
    --include='*.cu' --include='*.cuh' | grep -v -e "^$list:" -e "^$own:" -e '^src/format/hyper_keys.cpp:' -e '^src/text/' \
      -e '^src/format/tokenizer_keys.cpp:')
  [ -z "$found" ] || { echo "asks for a model's name:"; echo "$found"; bad=1; }
done
found=$(grep -rniE 'architecture' src/text) && { echo "$found"; bad=1; }
# A comparison with a name that is not in the list would show here.
found=$(grep -rnE 'architecture(\(\))? *(==|!=) *"' $folders) && { echo "$found"; bad=1; }
echo "$seen architectures"
[ "$seen" -gt 0 ] && [ "$bad" -eq 0 ]
