# Functions of aarch64.sh and x86.sh.

skip() { echo "skipped: $*"; exit 77; }

# build_programs SOURCE BUILD FMT_HEADERS EIGEN_HEADERS ANY [CMAKE_OPTION ...]
build_programs() {
  local source=$1 build=$2 fmt=$3 eigen=$4
  shift 5
  [ -f "$fmt/fmt/core.h" ] || fmt=/usr/include
  [ -f "$fmt/fmt/core.h" ] || skip 'no headers of fmt'
  [ -f /usr/include/catch2/catch.hpp ] || skip 'Catch2 is not of the version that is one header'
  # Headers that serve every processor, apart from those of the build machine's C library.
  mkdir -p "$build/headers"
  ln -sfn "$fmt/fmt" "$build/headers/fmt"
  ln -sfn /usr/include/catch2 "$build/headers/catch2"
  ln -sfn "$eigen/Eigen" "$build/headers/Eigen"
  cmake -S "$source/tests/processors/project" -B "$build" -DCMAKE_BUILD_TYPE=Release "$@" >"$build/configure.log" ||
    { cat "$build/configure.log"; exit 1; }
  cmake --build "$build" -j 2 >"$build/build.log" 2>&1 || { tail -n 60 "$build/build.log"; exit 1; }
}
