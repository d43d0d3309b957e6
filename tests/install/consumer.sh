#!/usr/bin/env bash
# Builds examples/consumer from nothing against the library, and runs it.
# usage: consumer.sh MODE SOURCE BUILD WORK CXX GENERATOR      LLMINFER_MODELS: it generates text if a model is there
#   static         installed static library, moved to another place after the installation
#   shared         installed shared library, on a machine without the development files of its dependencies
#   subdirectory   add_subdirectory
#   pkg-config     installed shared library by pkg-config
#   pkg-config-static    the static library by pkg-config
#   package        the .tar.gz that cpack makes
#   cuda           the CUDA device's plug-in, beside the shared library and beside a program with the static one
set -euo pipefail
mode=$1 source=$2 build=$3 work=$4/$1 generator=$6
export CXX=$5
shift $#
rm -rf "$work"
mkdir -p "$work"

install_components() {  # prefix component ...
  local prefix=$1 component
  shift
  for component; do cmake --install "$build" --component "$component" --prefix "$prefix" >"$work/install.log"; done
}
# Finds the plug-in where it was installed, or where the static program's build put it, when started by a path, by a name
# and from elsewhere; and notices when it is gone.
use_plugin() {  # static|shared
  local place program=$work/build-$1/plugin_consumer
  cmake -S "$source/tests/install/plugin" -B "$work/build-$1" -G "$generator" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCONSUMER_COMPONENT="$1"
  cmake --build "$work/build-$1"
  if [ "$1" = static ]; then
    place=$work/build-static/llminfer
  else
    place=$(dirname "$(find "$work/prefix" -name libllminfer_cuda.so)")
  fi
  "$program" "$place"
  (cd "$work" && PATH=$(dirname "$program"):$PATH plugin_consumer "$place")
  mv "$place/libllminfer_cuda.so" "$work/elsewhere.so"
  if "$program" "$place"; then echo "a plug-in that is not there is found"; exit 1; fi
  mv "$work/elsewhere.so" "$place/libllminfer_cuda.so"
}
build_consumer() {  # prefix option ...
  local prefix=$1
  shift
  cmake -S "$source/examples/consumer" -B "$work/build" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" "$@"
  cmake --build "$work/build"
}
pkg_config() {  # prefix option ...
  local file
  file=$(find "$1" -name llminfer.pc)
  shift
  PKG_CONFIG_PATH=$(dirname "$file") pkg-config "$@" llminfer
}

case $mode in
  static)
    install_components "$work/before" headers static
    mv "$work/before" "$work/prefix"
    build_consumer "$work/prefix" -DCONSUMER_COMPONENT=static \
      -DCMAKE_PROJECT_consumer_INCLUDE="$source/tests/install/twice.cmake"
    if grep -rlE "$work/before|$build" "$work/prefix" --include='*.cmake' --include='*.pc'; then
      echo "these installed files name the place they were built or installed at"
      exit 1
    fi
    program=$work/build/consumer ;;
  shared)
    install_components "$work/prefix" headers shared shared_dev
    build_consumer "$work/prefix" -DCONSUMER_COMPONENT=shared -DBUILD_SHARED_LIBS=ON \
      -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_PCRE2=ON -DCMAKE_DISABLE_FIND_PACKAGE_utf8proc=ON \
      -DCMAKE_PROJECT_consumer_INCLUDE="$source/tests/install/twice.cmake"
    program=$work/build/consumer
    linked=$(ldd "$program")
    grep -q 'libllminfer\.so\.[0-9]*\.[0-9]* ' <<<"$linked" ||
      { echo "not linked to libllminfer.so.MAJOR.MINOR:"; echo "$linked"; exit 1; } ;;
  subdirectory)
    # Unoptimized: what is tested is the project's files.
    cmake -S "$source/tests/install/subdirectory" -B "$work/build" -G "$generator" -DLLMINFER_SOURCE="$source"
    cmake --build "$work/build" --target consumer -j "$(nproc)"
    tests=$(ctest --test-dir "$work/build" -N | tail -n 1)
    [ "$tests" = 'Total Tests: 0' ] || { echo "the subproject adds tests: $tests"; exit 1; }
    program=$work/build/consumer/consumer ;;
  pkg-config)
    install_components "$work/prefix" headers shared shared_dev
    # shellcheck disable=SC2046
    $CXX -std=c++20 "$source/examples/consumer/main.cpp" -o "$work/consumer" $(pkg_config "$work/prefix" --cflags --libs)
    LD_LIBRARY_PATH=$(dirname "$(find "$work/prefix" -name libllminfer.so)")
    export LD_LIBRARY_PATH
    program=$work/consumer ;;
  pkg-config-static)
    install_components "$work/prefix" headers static
    # shellcheck disable=SC2046
    $CXX -std=c++20 "$source/examples/consumer/main.cpp" -o "$work/consumer" $(pkg_config "$work/prefix" --static --cflags --libs)
    program=$work/consumer ;;
  package)
    (cd "$build" && cpack -G TGZ -B "$work/packages" >"$work/cpack.log")
    mkdir "$work/prefix"
    tar -xzf "$work"/packages/*.tar.gz -C "$work/prefix" --strip-components=1
    build_consumer "$work/prefix"
    program=$work/build/consumer ;;
  cuda)
    install_components "$work/before" headers static shared shared_dev cuda
    mv "$work/before" "$work/prefix"
    use_plugin shared
    use_plugin static
    exit ;;
  *) echo "no mode $mode"; exit 2 ;;
esac
# An unoptimized build would take its time with a real model.
[ "$mode" != subdirectory ] && [ -f "${LLMINFER_MODELS:-}/smollm2-135m-q4_1.gguf" ] &&
  set -- "$LLMINFER_MODELS/smollm2-135m-q4_1.gguf"
"$program" "$@"
