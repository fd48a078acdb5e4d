# Files of a folder are compiled eight at a time, as one: most of a file's time goes into headers and
# into what these expand to, which a batch does once. Names local to a file are therefore its
# folder's, each once. -DLOOPWRIGHT_BATCHES=OFF compiles each alone: faster when one has changed.
option(LOOPWRIGHT_BATCHES "compile several files as one" ON)

# batch(TARGET [SIZE]): its files in batches of SIZE, eight where it is not said, by folder. Alone stay
# what is generated, rules, each of which has functions of the same names, and src/base, of which who
# links the simulated NPU alone takes single objects, without OpenSSL.
function(batch target)
  if(NOT LOOPWRIGHT_BATCHES)
    return()
  endif()
  set(size ${ARGN} 8)
  list(GET size 0 size)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${path}" generated)
    cmake_path(GET path PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    if(generated OR folder MATCHES "^(schedules/rules|src/base)" OR NOT source MATCHES "\\.cc$")
      continue()
    endif()
    string(MAKE_C_IDENTIFIER "${folder}" group)
    math(EXPR number "${count_${group}} + 0")
    math(EXPR "count_${group}" "${number} + 1")
    math(EXPR number "${number} / ${size}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${number})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
