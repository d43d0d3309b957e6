#!/usr/bin/env bash
# usage: run.sh SOURCE BUILD FMT_HEADERS EIGEN_HEADERS [CMAKE_OPTION ...]
# Builds tests/aarch64/project into BUILD and runs it under qemu. Exit code 77, with the reason, where a tool is missing.
set -euo pipefail
source=$1 build=$2 fmt=$3 eigen=$4
shift 4

skip() { echo "skipped: $*"; exit 77; }
command -v aarch64-linux-gnu-g++ >/dev/null || skip 'no aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu)'
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || skip 'no qemu-aarch64 (Debian: qemu-user)'
[ -f "$fmt/fmt/core.h" ] || fmt=/usr/include
[ -f "$fmt/fmt/core.h" ] || skip 'no headers of fmt'
[ -f /usr/include/catch2/catch.hpp ] || skip 'Catch2 is not of the version that is one header'

# Headers that serve every processor, apart from those of the build machine's C library.
mkdir -p "$build/headers"
ln -sfn "$fmt/fmt" "$build/headers/fmt"
ln -sfn /usr/include/catch2 "$build/headers/catch2"
ln -sfn "$eigen/Eigen" "$build/headers/Eigen"

cmake -S "$source/tests/aarch64/project" -B "$build" -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64.cmake" \
  -DCMAKE_BUILD_TYPE=Release "$@" >"$build/configure.log" || { cat "$build/configure.log"; exit 1; }
cmake --build "$build" -j 2 >"$build/build.log" 2>&1 || { tail -n 60 "$build/build.log"; exit 1; }

export LLMINFER_EXPECTED_ISA  # what "auto" is to choose, see isa_test.cpp
run() { echo "--- $2, -cpu $1"; "$qemu" -cpu "$1" "$build/$2" "${@:3}"; }
LLMINFER_EXPECTED_ISA=i8mm
run max core
run max kernels
run max programs
# The same kernels, chosen otherwise: sets without instructions that these processors lack.
LLMINFER_EXPECTED_ISA=dotprod
run neoverse-n1 kernels
LLMINFER_EXPECTED_ISA=neon
run cortex-a72 kernels
