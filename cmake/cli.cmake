# The library behind the commands, the `loopwright` binary, and the package that
# find_package(Loopwright) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

embed_texts(lw_context_header src/build "context.h" context_header_text)
library(lw_api FOLDERS src/cli/api SOURCES ${lw_context_header} USES lw_measure lw_search lw_tuner_db)
set_target_properties(lw_api PROPERTIES EXPORT_NAME loopwright)
target_include_directories(lw_api INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/loopwright>)

file(GLOB lw_commands CONFIGURE_DEPENDS src/cli/*.cc)
add_executable(loopwright ${lw_commands} bench/interleave.cc)
target_compile_definitions(loopwright PRIVATE LOOPWRIGHT_VERSION="${PROJECT_VERSION}")
target_link_libraries(loopwright PRIVATE lw_api lw_peers CLI11::CLI11)

# Installation: the binary, the headers as they stand in the tree, static libraries, the package.
set(lw_libraries lw_proto lw_base lw_expr lw_schedules lw_lower lw_cost_model lw_tuner_db lw_search
    lw_build lw_measure lw_api)
install(TARGETS loopwright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${lw_libraries} EXPORT LoopwrightTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/loopwright)
foreach(folder src/base src/expr schedules src/lower cost_model tuner_db src/search src/build
        src/measure src/cli)
  file(GLOB headers CONFIGURE_DEPENDS ${folder}/*.h)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/loopwright/${folder})
endforeach()
install(EXPORT LoopwrightTargets NAMESPACE Loopwright::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright)
configure_package_config_file(cmake/LoopwrightConfig.cmake.in
  ${CMAKE_BINARY_DIR}/LoopwrightConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/LoopwrightConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/LoopwrightConfig.cmake
        ${CMAKE_BINARY_DIR}/LoopwrightConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Loopwright)
