#!/usr/bin/env bash
# usage: aarch64.sh SOURCE BUILD FMT_HEADERS EIGEN_HEADERS - [CMAKE_OPTION ...]
# Builds project/ into BUILD for aarch64 and runs it under qemu. Exit code 77, with the reason, where a tool is missing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
command -v aarch64-linux-gnu-g++ >/dev/null || skip 'no aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu)'
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || skip 'no qemu-aarch64 (Debian: qemu-user)'
build_programs "$@" "-DCMAKE_TOOLCHAIN_FILE=$1/cmake/aarch64.cmake"
build=$2

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
