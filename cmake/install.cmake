# Installation: the program, the libraries, the headers of include/loopwright, and a CMake package:
# find_package(Loopwright) gives Loopwright::loopwright. The consumer needs the -dev packages of
# packages.txt's libraries.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The libraries of ours that the program is linked from, so that building the program alone, as
# ./run_demo does, is enough to install: directly and indirectly, each once.
set(loopwright_libraries "")
set(linked loopwright)
while(linked)
  list(POP_FRONT linked target)
  get_target_property(uses ${target} LINK_LIBRARIES)
  get_target_property(interface_uses ${target} INTERFACE_LINK_LIBRARIES)
  string(REGEX MATCHALL "lw_[a-z_]+" uses "${uses};${interface_uses}")
  foreach(library ${uses})
    if(NOT library IN_LIST loopwright_libraries)
      get_target_property(type ${library} TYPE)
      if(type MATCHES "^(STATIC|INTERFACE)_LIBRARY$")
        list(APPEND loopwright_libraries ${library})
        list(APPEND linked ${library})
      endif()
    endif()
  endforeach()
endwhile()

# One target to link: all libraries, found again under the namespace.
add_library(loopwright_all INTERFACE)
set_target_properties(loopwright_all PROPERTIES EXPORT_NAME loopwright)
target_link_libraries(loopwright_all INTERFACE ${loopwright_libraries})
target_include_directories(loopwright_all INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(loopwright_all INTERFACE cxx_std_20)
install(TARGETS loopwright_all ${loopwright_libraries} EXPORT LoopwrightTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/loopwright)
install(EXPORT LoopwrightTargets NAMESPACE Loopwright::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright)

install(DIRECTORY include/loopwright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS loopwright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

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
