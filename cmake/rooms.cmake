# Rooms: one object library a folder of src/, so that a folder's tests build and link without the others,
# and the static and the shared library are made of the same objects.

# Flags that every object of the project gets. They keep numbers equal on every compiler (no fma contraction),
# symbols hidden, and a dlclose clean (no unique symbols).
add_library(llminfer_flags INTERFACE)
target_compile_features(llminfer_flags INTERFACE cxx_std_20)
target_compile_options(llminfer_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic
  $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique> $<$<BOOL:${LLMINFER_WERROR}>:-Werror>)
target_include_directories(llminfer_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include ${PROJECT_SOURCE_DIR}/src)
if(LLMINFER_SANITIZE)
  target_compile_options(llminfer_flags INTERFACE -fsanitize=${LLMINFER_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -g1)
  target_link_options(llminfer_flags INTERFACE -fsanitize=${LLMINFER_SANITIZE})
endif()

# Headers that most files include, read once: a third of what a small file takes the compiler. They hide a missing
# #include, so that only the builds of sanitizers have them; the others compile every file as it is. g++ 12 fails over
# Eigen behind them where it does not optimize (prefetches with hints that are no constants to it).
option(LLMINFER_PRECOMPILE "Precompiled headers of the standard library and fmt" OFF)
set(LLMINFER_HEADERS <algorithm> <array> <atomic> <bit> <chrono> <cmath> <condition_variable> <cstdint> <cstring>
  <deque> <filesystem> <functional> <limits> <map> <memory> <mutex> <optional> <random> <span> <sstream> <stop_token>
  <string> <string_view> <thread> <unordered_map> <variant> <vector> <fmt/format.h>)
if(LLMINFER_PRECOMPILE)  # who shares headers has the same definitions
  target_compile_definitions(llminfer_flags INTERFACE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
endif()

# What fuzzers run has the counters that guide them, in the tests, too: compiled once for both.
option(LLMINFER_FUZZ "Build the fuzzers" OFF)
set(LLMINFER_FUZZED_ROOMS core quant format text chat)

# The first room of its flags makes the headers, the others take them.
function(llminfer_precompile target flags)
  get_property(owner GLOBAL PROPERTY LLMINFER_HEADERS_OF_${flags})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${LLMINFER_HEADERS})
    set_property(GLOBAL PROPERTY LLMINFER_HEADERS_OF_${flags} ${target})
  endif()
endfunction()

# llminfer_room(NAME SOURCES a.cpp ... [LINK lib ...])   LINK: private third-party libraries
function(llminfer_room name)
  cmake_parse_arguments(R "" "" "SOURCES;LINK" ${ARGN})
  add_library(llminfer_${name} OBJECT ${R_SOURCES})
  set_target_properties(llminfer_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  target_link_libraries(llminfer_${name} PUBLIC $<BUILD_INTERFACE:llminfer_flags> ${R_LINK})
  set(flags plain)
  if(LLMINFER_FUZZ AND name IN_LIST LLMINFER_FUZZED_ROOMS)
    set(flags counters)
    target_compile_options(llminfer_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(LLMINFER_PRECOMPILE)
    llminfer_precompile(llminfer_${name} ${flags})
  endif()
  set_property(GLOBAL APPEND PROPERTY LLMINFER_ROOMS llminfer_${name})
  if(R_LINK)
    set_property(GLOBAL APPEND PROPERTY LLMINFER_LINKS ${R_LINK})
  endif()
endfunction()
