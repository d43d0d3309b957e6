# The libraries that users link, made of the rooms' objects: llminfer_static, llminfer_shared, and the alias
# llminfer::llminfer, which is the shared one where BUILD_SHARED_LIBS is on and the static one otherwise.

# Its variables are used below, where an empty one goes unnoticed: the cache has them from the second configuration on.
include(GNUInstallDirs)
include(llminferPlugins)

get_property(rooms GLOBAL PROPERTY LLMINFER_ROOMS)
get_property(links GLOBAL PROPERTY LLMINFER_LINKS)
list(REMOVE_DUPLICATES links)
# Header-only and private: nothing of them is left to link.
list(REMOVE_ITEM links nlohmann_json::nlohmann_json Eigen3::Eigen)
set(LLMINFER_LIBRARY_LINKS ${links})
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)

function(llminfer_library kind)
  set(target llminfer_${kind})
  string(TOUPPER ${kind} type)
  add_library(${target} ${type} ${objects})
  add_library(llminfer::${target} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE ${LLMINFER_LIBRARY_LINKS})
  # The objects' own language is not enough for CMake to choose a linker when a target has no sources.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME llminfer LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()

llminfer_library(static)
llminfer_library(shared)
# Inline functions of the standard library and fmt have default visibility whatever the compiler is told, so the
# linker gets the list of what leaves the library.
target_link_options(llminfer_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map
  LINKER:--as-needed)
set_property(TARGET llminfer_shared APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
if(LLMINFER_SANITIZE)
  target_link_options(llminfer_shared PUBLIC -fsanitize=${LLMINFER_SANITIZE})
  target_link_options(llminfer_static INTERFACE -fsanitize=${LLMINFER_SANITIZE})
else()
  target_link_options(llminfer_shared PRIVATE LINKER:--no-undefined)  # the sanitizers' symbols come from the program
endif()

if(BUILD_SHARED_LIBS)
  set(chosen shared)
  set(other static)
else()
  set(chosen static)
  set(other shared)
endif()
add_library(llminfer::llminfer ALIAS llminfer_${chosen})
if(NOT LLMINFER_INSTALL)
  set_target_properties(llminfer_${other} PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
