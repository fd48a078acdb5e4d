# Kernels as libraries of a CMake project: find_package(Loopwright COMPONENTS Kernels) has these
# functions. They need the program (Loopwright::tool, a program of this machine also where the project
# is built for another) and a compiler of C for what chooses among the kernels; what they build needs
# nothing. Configuring runs nothing; kernels are built in parallel, each anew only when what it is made
# of changes.
#
#   loopwright_add_kernel(NAME WORKLOAD
#     [SHAPES "M=1" "M=8" ...]      one kernel each; NAME() takes their parameters: "M=1 N=8" two
#     [PARAMS N=512 K=512]          of all of them
#     [CONST B ... | none]          inputs that NAME_prepack() packs; default: as the op says
#     [TARGETS x86_avx512 x86_avx2] one kernel each; called is the first that the processor can run;
#                                   default: host
#     [THREADS 4]                   that they are tuned for; default: 1
#     [DATABASE FILE | SNAPSHOT FILE | BUNDLE FOLDER]  where from; default: loopwright.db of the project
#     [LOCK FILE]                   what it has is generated from it alone, and compared
#     [ON_MISS ERROR|NEAREST|DEFAULT]  what is not tuned: an error with the request on stdout (the
#                                   default), what is nearest, or what is derived without a measurement
#     [PARALLEL HOOK]               NAME() takes an lw_context, whose parallel_for runs loops
#     [ALLOW winograd|bf16 ...])    what is less exact
#   The static library NAME, with NAME.h. WORKLOAD: matmul, or kernels.te:dense, a path from the
#   current source folder.
#
#   loopwright_add_test(NAME)       ctest NAME.INSTANCE: each kernel against the reference, skipped where
#                                   this machine can neither run nor emulate it
#
# With -DLOOPWRIGHT_FROZEN=ON only LOCK is read: what it lacks is an error. `cmake --build . --target
# loopwright-lock` writes the lock files, which nothing else does; `loopwright-request` writes
# loopwright-request.json into the build folder, which `loopwright tune --suite` takes.
option(LOOPWRIGHT_FROZEN "build kernels from lock files alone" OFF)

# A place for the tool where it is not beside the package: cross builds, a build tree.
set(LOOPWRIGHT_EXECUTABLE "" CACHE FILEPATH "the program loopwright; empty: the package's")

function(_loopwright_tool variable)
  if(LOOPWRIGHT_EXECUTABLE)
    set(${variable} "${LOOPWRIGHT_EXECUTABLE}" PARENT_SCOPE)
  else()
    # The path, since what is deferred to the project's top may not see the target.
    get_target_property(location Loopwright::tool LOCATION)
    set(${variable} "${location}" PARENT_SCOPE)
  endif()
endfunction()

# As part of a C identifier: "M=8 N=64" is m8_n64.
function(_loopwright_word variable text)
  string(TOLOWER "${text}" word)
  string(REPLACE "=" "" word "${word}")
  string(REGEX REPLACE "[^a-z0-9]+" "_" word "${word}")
  set(${variable} "${word}" PARENT_SCOPE)
endfunction()

function(_loopwright_json_list variable)
  list(JOIN ARGN "\", \"" joined)
  set(${variable} "[\"${joined}\"]" PARENT_SCOPE)
endfunction()

function(loopwright_add_kernel name workload)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "THREADS;DATABASE;SNAPSHOT;BUNDLE;LOCK;ON_MISS;PARALLEL"
                        "SHAPES;PARAMS;CONST;TARGETS;ALLOW")
  set(me "loopwright_add_kernel(${name})")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${me}: unknown words: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT name MATCHES "^[A-Za-z][A-Za-z0-9_]*$")
    message(FATAL_ERROR "${me}: the name must be an identifier of C")
  endif()
  if(NOT ARG_TARGETS)
    set(ARG_TARGETS host)
  endif()
  if(CMAKE_CROSSCOMPILING AND host IN_LIST ARG_TARGETS)
    message(FATAL_ERROR "${me}: TARGETS host is this machine, and the project is built for another: name "
                        "targets that `loopwright targets` lists")
  endif()
  if(NOT ARG_THREADS)
    set(ARG_THREADS 1)
  endif()
  if(NOT ARG_ON_MISS)
    set(ARG_ON_MISS ERROR)
  endif()
  if(NOT ARG_ON_MISS MATCHES "^(ERROR|NEAREST|DEFAULT)$")
    message(FATAL_ERROR "${me}: ON_MISS ${ARG_ON_MISS}: ERROR, NEAREST or DEFAULT")
  endif()
  if(ARG_PARALLEL AND NOT ARG_PARALLEL STREQUAL "HOOK")
    message(FATAL_ERROR "${me}: PARALLEL ${ARG_PARALLEL}: HOOK, or leave it out")
  endif()
  set(sources 0)
  foreach(source DATABASE SNAPSHOT BUNDLE)
    if(ARG_${source})
      math(EXPR sources "${sources} + 1")
    endif()
  endforeach()
  if(sources GREATER 1)
    message(FATAL_ERROR "${me}: one of DATABASE, SNAPSHOT and BUNDLE is where kernels come from")
  endif()
  if(LOOPWRIGHT_FROZEN AND NOT ARG_LOCK)
    message(FATAL_ERROR "${me}: LOOPWRIGHT_FROZEN reads lock files alone, and it names none: LOCK FILE")
  endif()
  foreach(file DATABASE SNAPSHOT BUNDLE LOCK)
    if(ARG_${file})
      get_filename_component(ARG_${file} "${ARG_${file}}" ABSOLUTE)
    endif()
  endforeach()
  if(NOT ARG_DATABASE)
    set(ARG_DATABASE ${PROJECT_SOURCE_DIR}/loopwright.db)
  endif()

  # A database or a lock file that comes to be configures the project anew.
  set(read "")
  foreach(file "${ARG_DATABASE}" "${ARG_LOCK}")
    if(file)
      file(GLOB found CONFIGURE_DEPENDS "${file}")
      list(APPEND read ${found})
    endif()
  endforeach()
  if(LOOPWRIGHT_FROZEN)
    set(read ${ARG_LOCK})
  endif()
  set(targets "")
  foreach(target ${ARG_TARGETS})
    if(target MATCHES "[.]json$")
      get_filename_component(target "${target}" ABSOLUTE)
    endif()
    list(APPEND targets ${target})
  endforeach()
  set(ARG_TARGETS ${targets})

  # Where each kernel comes from.
  if(LOOPWRIGHT_FROZEN)
    set(from --lock ${ARG_LOCK})
  elseif(ARG_BUNDLE)
    set(from --locked ${ARG_BUNDLE})
    if(ARG_LOCK)
      list(APPEND from --lock ${ARG_LOCK})
    endif()
  else()
    string(TOLOWER ${ARG_ON_MISS} on_miss)
    set(from --on-miss ${on_miss})
    if(NOT ARG_ON_MISS STREQUAL "ERROR")
      list(APPEND from --unverified)       # loopwright_add_test runs them
    endif()
    if(ARG_SNAPSHOT)
      list(APPEND from --snapshot ${ARG_SNAPSHOT})
    else()
      list(APPEND from --db ${ARG_DATABASE})
    endif()
    if(ARG_LOCK AND EXISTS ${ARG_LOCK})
      list(APPEND from --lock ${ARG_LOCK} --beyond-lock)
    endif()
  endif()
  set(options --threads ${ARG_THREADS})
  if(ARG_CONST)
    list(JOIN ARG_CONST "," names)
    list(APPEND options --const ${names})
  endif()
  foreach(what ${ARG_ALLOW})
    list(APPEND options --allow ${what})
  endforeach()
  set(words ${workload})
  if(workload MATCHES "^(.*\\.te)(:.*)?$")
    set(op "${CMAKE_MATCH_2}")
    get_filename_component(file "${CMAKE_MATCH_1}" ABSOLUTE)
    if(file MATCHES " ")
      message(FATAL_ERROR "${me}: the path of a program must have no space: ${file}")
    endif()
    set(words "${file}${op}")
  endif()
  if(NOT ARG_SHAPES)
    set(ARG_SHAPES "-")
  endif()

  _loopwright_tool(tool)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_kernels)
  set(objects "")
  set(instances "")
  set(facts "")
  foreach(shape ${ARG_SHAPES})
    set(own_words "")
    set(parameters "")
    if(NOT shape STREQUAL "-")
      separate_arguments(own_words UNIX_COMMAND "${shape}")
      list(JOIN own_words "," parameters)
    endif()
    foreach(target ${ARG_TARGETS})
      get_filename_component(target_name "${target}" NAME_WE)
      _loopwright_word(word "${parameters} ${target_name}")
      string(REGEX REPLACE "^_+" "" word "${word}")
      set(entry ${name}__${word})
      set(depfile ${folder}/${entry}.d)
      if(LOOPWRIGHT_FROZEN OR NOT ARG_BUNDLE)
        set(own_from ${from} --entry ${entry})
      else()
        set(own_from ${from})
      endif()
      add_custom_command(
        OUTPUT ${folder}/${entry}.o ${folder}/${entry}.json
        BYPRODUCTS ${folder}/${entry}.h
        COMMAND ${tool} export -q ${words} ${own_words} ${ARG_PARAMS} ${options} --target ${target}
                ${own_from} --depfile ${depfile} -o ${folder}
        DEPFILE ${depfile} DEPENDS ${tool} ${read}
        COMMENT "Generating ${entry}" VERBATIM)
      list(APPEND objects ${folder}/${entry}.o)
      list(APPEND facts ${folder}/${entry}.json)
      if(parameters)
        list(APPEND instances --instance "${parameters}:${folder}/${entry}.json")
      else()
        list(APPEND instances --instance "${folder}/${entry}.json")
      endif()
      # What `lock` is asked for.
      list(JOIN own_words " " text)
      list(JOIN ARG_PARAMS " " more)
      string(STRIP "${words} ${text} ${more}" text)
      set(case "{\"name\": \"${entry}\", \"words\": \"${text}\", \"entry\": \"${entry}\"")
      string(APPEND case ", \"target\": \"${target}\", \"threads\": ${ARG_THREADS}")
      if(ARG_CONST)
        _loopwright_json_list(list ${ARG_CONST})
        string(APPEND case ", \"const\": ${list}")
      endif()
      if(ARG_ALLOW)
        _loopwright_json_list(list ${ARG_ALLOW})
        string(APPEND case ", \"allow\": ${list}")
      endif()
      if(ARG_SNAPSHOT)
        set(records "--snapshot=${ARG_SNAPSHOT}")
      else()
        set(records "--db=${ARG_DATABASE}")
      endif()
      _loopwright_collect(REQUEST "${records}" "${case}}")
      if(ARG_LOCK)
        _loopwright_collect(LOCK "${records} ${ARG_LOCK}" "${case}}")
      endif()
    endforeach()
  endforeach()

  set(hook "")
  if(ARG_PARALLEL)
    set(hook --hook)
  endif()
  set(quiet "")
  if(ARG_ON_MISS STREQUAL "ERROR")
    set(quiet -q)
  endif()
  add_custom_command(
    OUTPUT ${folder}/${name}.c ${folder}/${name}.h
    COMMAND ${tool} dispatch ${name} ${instances} ${hook} ${quiet} -o ${folder}
    DEPENDS ${facts} ${tool}
    COMMENT "Generating ${name}()" VERBATIM)
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(${name} STATIC ${folder}/${name}.c ${folder}/${name}.h ${objects})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_STANDARD 11
                        PUBLIC_HEADER ${folder}/${name}.h LOOPWRIGHT_FACTS "${facts}")
  target_include_directories(${name} INTERFACE $<BUILD_INTERFACE:${folder}>)
  get_property(is_deferred GLOBAL PROPERTY LOOPWRIGHT_HAS_TARGETS)
  if(NOT is_deferred)
    set_property(GLOBAL PROPERTY LOOPWRIGHT_HAS_TARGETS TRUE)
    cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY [[${CMAKE_SOURCE_DIR}]]
      CALL _loopwright_add_lock_targets [[${tool}]])")
  endif()
endfunction()

# Remembers a case under what it is asked of: records, or records and a lock file.
function(_loopwright_collect kind of case)
  string(MD5 place "${of}")
  set_property(GLOBAL APPEND PROPERTY LOOPWRIGHT_${kind}_${place} "${case}")
  get_property(known GLOBAL PROPERTY LOOPWRIGHT_${kind})
  if(NOT of IN_LIST known)
    set_property(GLOBAL APPEND PROPERTY LOOPWRIGHT_${kind} "${of}")
  endif()
endfunction()

# Writes what was collected as a file of requests.
function(_loopwright_write_cases kind of variable)
  string(MD5 place "${of}")
  get_property(cases GLOBAL PROPERTY LOOPWRIGHT_${kind}_${place})
  list(JOIN cases ",\n    " text)
  set(file ${CMAKE_BINARY_DIR}/loopwright/${kind}_${place}.json)
  file(GENERATE OUTPUT ${file} CONTENT "{\n  \"workloads\": [\n    ${text}\n  ]\n}\n")
  set(${variable} ${file} PARENT_SCOPE)
endfunction()

# At the project's end, when all kernels are known.
function(_loopwright_add_lock_targets tool)
  get_property(all GLOBAL PROPERTY LOOPWRIGHT_REQUEST)
  set(commands "")
  set(number "")
  foreach(records ${all})
    _loopwright_write_cases(REQUEST "${records}" cases)
    list(APPEND commands COMMAND ${CMAKE_COMMAND} -DTOOL=${tool} -DRECORDS=${records}
         -DCASES=${cases} -DOUTPUT=${CMAKE_BINARY_DIR}/loopwright-request${number}.json
         -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/LoopwrightRequest.cmake)
    math(EXPR number "0${number} - 1")
  endforeach()
  add_custom_target(loopwright-request ${commands} VERBATIM)
  get_property(all GLOBAL PROPERTY LOOPWRIGHT_LOCK)
  set(commands "")
  set(locks "")
  foreach(one ${all})
    string(REGEX MATCH "^(--[a-z]+=.*) (/.*)$" matched "${one}")
    set(records "${CMAKE_MATCH_1}")
    set(lock "${CMAKE_MATCH_2}")
    if(lock IN_LIST locks)
      message(FATAL_ERROR "${lock} has kernels of two databases or snapshots: one lock file each")
    endif()
    list(APPEND locks "${lock}")
    _loopwright_write_cases(LOCK "${one}" cases)
    list(APPEND commands COMMAND ${tool} lock --frozen ${cases} ${records} -o ${lock})
  endforeach()
  add_custom_target(loopwright-lock ${commands} VERBATIM)
endfunction()

function(loopwright_add_test name)
  _loopwright_tool(tool)
  get_target_property(facts ${name} LOOPWRIGHT_FACTS)
  foreach(file ${facts})
    get_filename_component(entry ${file} NAME_WE)
    string(REPLACE "${name}__" "" instance ${entry})
    add_test(NAME ${name}.${instance} COMMAND ${tool} verify ${file})
    set_tests_properties(${name}.${instance} PROPERTIES SKIP_RETURN_CODE 2)
  endforeach()
endfunction()
