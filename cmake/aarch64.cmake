# Toolchain: aarch64 Linux by Debian's cross compiler, programs run by qemu's user mode.
# cmake -S tests/processors/project -B build/aarch64 -DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64.cmake ...
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Libraries of the build machine are of no use; headers that a project asks for by path are.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
find_program(LLMINFER_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(LLMINFER_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${LLMINFER_QEMU})
endif()
