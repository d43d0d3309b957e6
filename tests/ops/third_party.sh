#!/usr/bin/env bash
# Builds the naive device as a third party would, from an installation, and runs it.
# usage: third_party.sh static|shared SOURCE BUILD WORK CXX GENERATOR
set -euo pipefail
kind=$1 source=$2 build=$3 work=$4/third_party_$1 generator=$6
export CXX=$5
rm -rf "$work"
mkdir -p "$work"
# Alone in a folder, so that nothing of the repository can be included.
cp -r "$source/tests/ops/naive" "$work/source"
components="headers op_cases static"
if [ "$kind" = shared ]; then components="headers op_cases shared shared_dev"; fi
for component in $components; do
  cmake --install "$build" --component "$component" --prefix "$work/prefix" >"$work/install.log"
done
cmake -S "$work/source" -B "$work/build" -G "$generator" -DCMAKE_PREFIX_PATH="$work/prefix" -DNAIVE_COMPONENT="$kind" \
  -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
"$work/build/try_device" "$work/build/libnaive_device.so" "$source/tests/golden/models/llama.gguf"
