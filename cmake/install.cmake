# Install rules, in components so that a prefix can have the static library alone:
#   headers (with the CMake and pkg-config files), static, shared, shared_dev (the link the linker follows), tools,
#   op_cases (the list of op cases, for authors of devices), cuda (the CUDA device's plug-in, see cuda/CMakeLists.txt).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/llminfer)

install(DIRECTORY include/llminfer ${PROJECT_BINARY_DIR}/include/llminfer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT headers FILES_MATCHING PATTERN "*.hpp")
install(TARGETS llminfer_static EXPORT llminfer-static-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT static)
install(TARGETS llminfer_shared EXPORT llminfer-shared-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT shared NAMELINK_COMPONENT shared_dev)
install(TARGETS llminfer_op_cases EXPORT llminfer-op_cases-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT op_cases)
install(EXPORT llminfer-op_cases-targets NAMESPACE llminfer:: DESTINATION ${config_dir} COMPONENT op_cases)
install(EXPORT llminfer-static-targets NAMESPACE llminfer:: DESTINATION ${config_dir} COMPONENT static)
install(EXPORT llminfer-shared-targets NAMESPACE llminfer:: DESTINATION ${config_dir} COMPONENT shared_dev)

# What a program that links the static library must find, as find_dependency lines and as pkg-config fields.
# A row: link target, CMake package, pkg-config module or linker flag.
set(known_dependencies
  "fmt::fmt|fmt|fmt" "Threads::Threads|Threads|-pthread" "PCRE2::8BIT|PCRE2|libpcre2-8"
  "utf8proc::utf8proc|utf8proc|libutf8proc" "${CMAKE_DL_LIBS}||-l${CMAKE_DL_LIBS}")
foreach(link IN LISTS LLMINFER_LIBRARY_LINKS)
  set(known FALSE)
  foreach(row IN LISTS known_dependencies)
    string(REPLACE "|" ";" row "${row}")
    list(GET row 0 target)
    if(NOT link STREQUAL target)
      continue()
    endif()
    set(known TRUE)
    list(GET row 1 package)
    list(GET row 2 pc)
    if(package)
      string(APPEND LLMINFER_FIND_DEPENDENCIES "  find_dependency(${package})\n")
    endif()
    if(pc MATCHES "^-")
      string(APPEND LLMINFER_PC_LIBS " ${pc}")
    else()
      string(APPEND LLMINFER_PC_REQUIRES " ${pc}")
    endif()
  endforeach()
  if(NOT known)
    message(FATAL_ERROR "cmake/install.cmake has no row for the dependency ${link}")
  endif()
endforeach()

configure_package_config_file(cmake/llminferConfig.cmake.in ${PROJECT_BINARY_DIR}/llminferConfig.cmake
  INSTALL_DESTINATION ${config_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/llminferConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/llminferConfig.cmake ${PROJECT_BINARY_DIR}/llminferConfigVersion.cmake
  cmake/llminferPlugins.cmake cmake/FindPCRE2.cmake cmake/Findutf8proc.cmake DESTINATION ${config_dir} COMPONENT headers)

# Relative to the file's own place, so that a moved prefix still works.
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" LLMINFER_PC_PREFIX "${pc_prefix}")
configure_file(cmake/templates/llminfer.pc.in ${PROJECT_BINARY_DIR}/llminfer.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/llminfer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT headers)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT headers)
install(DIRECTORY devices/ DESTINATION ${CMAKE_INSTALL_DATADIR}/llminfer/devices COMPONENT headers
  FILES_MATCHING PATTERN "*.json")
