# Run by `cmake --install`: installs the doors for whoever links the library, and the headers of ours
# that they include. What is not reached from here is ours to change.
cmake_minimum_required(VERSION 3.25)       # a script of its own: policies are as of this version
set(waiting
  src/expr/expr.h src/expr/language/builder.h src/expr/language/text.h   # programs
  schedules/targets/target.h src/api/api.h src/build/build.h             # tasks, tuning, kernels
  src/measure/machine/limits.h                                           # bounds
  src/api/lookup.h src/client/client.h src/client/loopwright.h)          # look-ups, also from C
set(installed "")
while(waiting)
  list(POP_FRONT waiting header)
  list(APPEND installed ${header})
  get_filename_component(folder ${header} DIRECTORY)
  file(INSTALL ${source_dir}/${header}
       DESTINATION ${CMAKE_INSTALL_PREFIX}/${include_dir}/${folder})
  file(STRINGS ${source_dir}/${header} lines REGEX "^#include \"(src|schedules|cost_model|tuner_db)/")
  foreach(line ${lines})
    string(REGEX REPLACE "^#include \"(.*)\"$" "\\1" included "${line}")
    if(NOT included IN_LIST installed AND NOT included IN_LIST waiting)
      list(APPEND waiting ${included})
    endif()
  endforeach()
endwhile()
