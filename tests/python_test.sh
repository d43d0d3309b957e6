#!/bin/sh
# usage: python_test.sh PYTHON SCRIPT [ARGUMENT ...]    runs a test script; 77 (skipped) where there is no such Python
command -v "$1" >/dev/null || { echo "skipped: no $1"; exit 77; }
exec "$@"
