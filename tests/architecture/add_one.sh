#!/bin/sh
# usage: add_one.sh SOURCE BUILD COPY OBJECTS CMAKE-ARGUMENT...
# Copies src/models, adds example.cpp and one line of architectures.inc, builds the copy by its own CMakeLists.txt
# against the other rooms' objects (of BUILD, listed in the file OBJECTS), and has it build a graph for the new name.
set -eu
source=$1 build=$2 copy=$3 objects=$4
shift 4
here=$source/tests/architecture
while read -r object; do
  (cd "$build" && [ -e "$object" ]) || { echo "skipped: not built: $object"; exit 77; }
done < "$objects"

rm -rf "$copy"
mkdir -p "$copy/src"
cp "$here/project/CMakeLists.txt" "$here/project/main.cpp" "$copy/"
cp -R "$source/src/models" "$copy/src/models"
cp "$here/example.cpp" "$copy/src/models/"
echo 'LLMINFER_ARCHITECTURE("example", example)' >> "$copy/src/models/architectures.inc"

changed=$(diff -rq "$source/src/models" "$copy/src/models" | wc -l)
[ "$changed" -eq 2 ] || { echo "$changed files differ, not 2"; exit 1; }

cmake -S "$copy" -B "$copy/build" -DCMAKE_BUILD_TYPE=None -DSOURCE="$source" -DBUILD="$build" -DOBJECTS="$objects" "$@"
cmake --build "$copy/build" --parallel 2
"$copy/build/new_architecture"
rm -rf "$copy"
