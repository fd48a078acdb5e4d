# Installation: the program, the libraries, the headers of include/loopwright, and two CMake packages.
# find_package(Loopwright) has components for those who need little (LoopwrightConfig.cmake.in) and
# one for those who want everything, whose consumer needs the -dev packages of packages.txt's
# libraries; find_package(LoopwrightNpu) gives Loopwright::npu, the simulated NPU alone, whose
# consumer needs abseil's.
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
install(TARGETS loopwright_all ${loopwright_libraries} EXPORT LoopwrightCxxTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/loopwright)
set(components Cxx Kernels)

install(DIRECTORY include/loopwright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The program as an imported one, and what its exported kernels are given.
add_library(loopwright_kernels INTERFACE)
set_target_properties(loopwright_kernels PROPERTIES EXPORT_NAME kernels)
set_target_properties(loopwright PROPERTIES EXPORT_NAME tool)
install(TARGETS loopwright loopwright_kernels EXPORT LoopwrightKernelsTargets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT Kernels
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/loopwright/context.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/loopwright
        COMPONENT Kernels)
install(FILES cmake/LoopwrightKernels.cmake cmake/LoopwrightRequest.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright COMPONENT Kernels)

# The C API: linked when the program is, as ./run_demo builds no more.
if(TARGET loopwright_runtime)
  add_dependencies(loopwright loopwright_runtime loopwright_remote)
  set_target_properties(loopwright_runtime PROPERTIES EXPORT_NAME runtime)
  install(TARGETS loopwright_runtime EXPORT LoopwrightRuntimeTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Runtime
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS loopwright_remote LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          NAMELINK_SKIP COMPONENT Runtime)
  file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(cmake/loopwright.pc.in ${CMAKE_BINARY_DIR}/loopwright.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/loopwright.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT Runtime)
  install(FILES include/loopwright/loopwright.h include/loopwright/context.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/loopwright COMPONENT Runtime)
  list(APPEND components Runtime)
endif()
foreach(component ${components})
  install(EXPORT Loopwright${component}Targets NAMESPACE Loopwright::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright COMPONENT ${component})
endforeach()

# The simulated NPU alone: one archive of all of ours that it is made of, behind loopwright/npu.h.
add_library(loopwright_npu STATIC $<TARGET_OBJECTS:lw_npu> $<TARGET_OBJECTS:lw_base>)
set_target_properties(loopwright_npu PROPERTIES EXPORT_NAME npu LINKER_LANGUAGE CXX)
target_link_libraries(loopwright_npu PUBLIC absl::status absl::statusor absl::str_format absl::strings)
target_include_directories(loopwright_npu INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_dependencies(loopwright loopwright_npu npu_sim)
install(TARGETS loopwright_npu EXPORT LoopwrightNpuTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT LoopwrightNpuTargets NAMESPACE Loopwright::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/LoopwrightNpu)
install(TARGETS npu_sim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

foreach(package Loopwright LoopwrightNpu)
  configure_package_config_file(cmake/${package}Config.cmake.in
    ${CMAKE_BINARY_DIR}/${package}Config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/${package})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/${package}ConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/${package}Config.cmake
          ${CMAKE_BINARY_DIR}/${package}ConfigVersion.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/${package} COMPONENT Kernels)
endforeach()

# The packages work from outside: installs into the build folder, builds and runs tests/package.
# Sanitized builds skip it: the consumer is not sanitized.
if(NOT LOOPWRIGHT_SANITIZE)
  add_test(NAME package_test
    COMMAND ${CMAKE_COMMAND} -DBINARY_DIR=${CMAKE_BINARY_DIR} -DSOURCE_DIR=${CMAKE_SOURCE_DIR}
            -P ${CMAKE_SOURCE_DIR}/tests/package/run.cmake)
  add_test(NAME symbols_test
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_BINARY_DIR} -P ${CMAKE_SOURCE_DIR}/tests/package/symbols.cmake)
  # Every door of docs/consumers.md, line by line.
  add_test(NAME consumers_test
    COMMAND ${CMAKE_SOURCE_DIR}/tests/tour/consumers ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  # examples/kernels with the component Kernels alone: cold and warm, from a lock file, cut off from the
  # network, in another folder.
  add_test(NAME cmake_kernels_test
    COMMAND ${CMAKE_COMMAND} -DBINARY_DIR=${CMAKE_BINARY_DIR} -DSOURCE_DIR=${CMAKE_SOURCE_DIR}
            -P ${CMAKE_SOURCE_DIR}/tests/package/cmake_kernels.cmake)
  set_tests_properties(package_test symbols_test consumers_test cmake_kernels_test
                       PROPERTIES LABELS consumer)
endif()

# An exported kernel in a program of C on an OpenCL device.
add_test(NAME opencl_example_test
  COMMAND ${CMAKE_COMMAND} -DLOOPWRIGHT=$<TARGET_FILE:loopwright> -DSOURCE_DIR=${CMAKE_SOURCE_DIR}
          -DWORK=${CMAKE_BINARY_DIR}/opencl_example -P ${CMAKE_SOURCE_DIR}/tests/package/opencl.cmake)
set_tests_properties(opencl_example_test PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: ")
