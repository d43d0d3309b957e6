# llminfer_add_plugins(PROGRAM plugin ...)   Puts plug-ins (llminfer::cuda) into the folder llminfer beside a program,
# where backend::find_plugin looks for them when the library is inside that program.
function(llminfer_add_plugins program)
  foreach(plugin ${ARGN})
    if(TARGET ${plugin})
      add_custom_command(TARGET ${program} POST_BUILD
        COMMAND ${CMAKE_COMMAND} -E make_directory $<TARGET_FILE_DIR:${program}>/llminfer
        COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:${plugin}> $<TARGET_FILE_DIR:${program}>/llminfer
        VERBATIM)
    else()
      message(FATAL_ERROR "llminfer_add_plugins: no target ${plugin}")
    endif()
  endforeach()
endfunction()
