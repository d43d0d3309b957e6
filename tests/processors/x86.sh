#!/usr/bin/env bash
# usage: x86.sh SOURCE BUILD FMT_HEADERS EIGEN_HEADERS BOCHSCPU [CMAKE_OPTION ...]
# Builds project/ into BUILD and runs it on emulated x86-64 processors (scripts/get-x86-emulator makes the folder
# BOCHSCPU). Exit code 77, with the reason, where a tool is missing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
source=$1 build=$2 bochscpu=$5
[ "$(uname -m)" = x86_64 ] || skip 'the emulator runs on x86-64'
[ -e "$bochscpu/complete" ] || skip 'no bochscpu (scripts/get-x86-emulator)'
build_programs "$@"
cc -shared -fPIC -O1 -o "$build/bochs_host.so" "$1/tests/processors/bochs/host.c"
BOCHS_MODULE=$(echo "$bochscpu"/bochscpu/_bochscpu*.so)
export BOCHS_MODULE BOCHS_MODEL LLMINFER_EXPECTED_ISA

# on MODEL PROGRAM [ARGUMENT ...]   MODEL: a function of Bochs, mangled
on() {
  BOCHS_MODEL=_Z$((${#1} + 13))create_$1_cpuidP8BX_CPU_C
  echo "--- $2 on $1: $LLMINFER_EXPECTED_ISA"
  LD_PRELOAD=$build/bochs_host.so PYTHONPATH=$bochscpu PYTHONDONTWRITEBYTECODE=1 \
    python3 "$source/tests/processors/bochs/run.py" "$build/$2" "${@:3}"
}
LLMINFER_EXPECTED_ISA=avx512bf16
# Its bits are those of other kernels, which are held against double arithmetic where they run natively.
on sapphire_rapids kernels '~"attention against double*"~"attention with bf16*"'
LLMINFER_EXPECTED_ISA=avx512
on tigerlake kernels '*processor*,unpackers*,attention bits*'
LLMINFER_EXPECTED_ISA=avxvnni
on arrow_lake kernels '*processor*,results are equal*,all levels*'
