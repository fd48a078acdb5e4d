# Installation: the program, the libraries, the headers under include/loopwright (their paths are the
# repository's: "src/expr/text.h"), and a CMake package: find_package(Loopwright) gives
# Loopwright::loopwright. The consumer needs the -dev packages of packages.txt's libraries.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Every library of ours that exists by now.
get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
set(loopwright_libraries "")
foreach(target ${targets})
  get_target_property(type ${target} TYPE)
  if(target MATCHES "^lw_" AND type MATCHES "^(STATIC|INTERFACE)_LIBRARY$")
    list(APPEND loopwright_libraries ${target})
  endif()
endforeach()

# One target to link: all libraries, found again under the namespace.
add_library(loopwright_all INTERFACE)
set_target_properties(loopwright_all PROPERTIES EXPORT_NAME loopwright)
target_link_libraries(loopwright_all INTERFACE ${loopwright_libraries})
target_include_directories(loopwright_all INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/loopwright>)
target_compile_features(loopwright_all INTERFACE cxx_std_20)
install(TARGETS loopwright_all ${loopwright_libraries} EXPORT LoopwrightTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/loopwright)
install(EXPORT LoopwrightTargets NAMESPACE Loopwright::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright)

foreach(folder src schedules cost_model tuner_db bench)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/loopwright
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/proto DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/loopwright
        FILES_MATCHING PATTERN "*.pb.h")
if(TARGET loopwright)
  install(TARGETS loopwright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(cmake/LoopwrightConfig.cmake.in
  ${CMAKE_BINARY_DIR}/LoopwrightConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/LoopwrightConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/LoopwrightConfig.cmake
        ${CMAKE_BINARY_DIR}/LoopwrightConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright)

# The package works from outside: installs into the build folder, builds and runs tests/package.
# Sanitized builds skip it: the consumer is not sanitized.
if(NOT LOOPWRIGHT_SANITIZE)
  add_test(NAME package_test
    COMMAND ${CMAKE_COMMAND} -DBINARY_DIR=${CMAKE_BINARY_DIR} -DSOURCE_DIR=${CMAKE_SOURCE_DIR}
            -P ${CMAKE_SOURCE_DIR}/tests/package/run.cmake)
endif()
