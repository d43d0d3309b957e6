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
    -fno-omit-frame-pointer -g)
  target_link_options(llminfer_flags INTERFACE -fsanitize=${LLMINFER_SANITIZE})
endif()

# llminfer_room(NAME SOURCES a.cpp ... [LINK lib ...])   LINK: private third-party libraries
function(llminfer_room name)
  cmake_parse_arguments(R "" "" "SOURCES;LINK" ${ARGN})
  add_library(llminfer_${name} OBJECT ${R_SOURCES})
  set_target_properties(llminfer_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  target_link_libraries(llminfer_${name} PUBLIC $<BUILD_INTERFACE:llminfer_flags> ${R_LINK})
  set_property(GLOBAL APPEND PROPERTY LLMINFER_ROOMS llminfer_${name})
  if(R_LINK)
    set_property(GLOBAL APPEND PROPERTY LLMINFER_LINKS ${R_LINK})
  endif()
endfunction()
