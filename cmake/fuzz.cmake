# fuzz/: libFuzzer targets, one for each file. Clang only:
#   cmake -S . -B build-fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DLOOPWRIGHT_FUZZ=ON
#   ninja -C build-fuzz parser_fuzz trace_fuzz kernel_fuzz npy_fuzz snapshot_fuzz runner_fuzz
#   ninja -C build-fuzz names_fuzz requests_fuzz module_fuzz npu_config_fuzz npu_text_fuzz
#   ninja -C build-fuzz npu_image_fuzz exec_fuzz lock_fuzz
#   build-fuzz/parser_fuzz -max_total_time=60
if(LOOPWRIGHT_FUZZ)
  file(GLOB targets CONFIGURE_DEPENDS fuzz/*_fuzz.cc)
  foreach(source ${targets})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE lw_lower lw_tuner_db)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
  foreach(name module npu_config npu_text npu_image)
    target_link_libraries(${name}_fuzz PRIVATE lw_npu)
  endforeach()
  target_link_libraries(exec_fuzz PRIVATE lw_exec)
  target_link_libraries(lock_fuzz PRIVATE lw_client)
  target_link_libraries(names_fuzz PRIVATE lw_serve)
  target_link_libraries(requests_fuzz PRIVATE lw_serve)
  target_sources(npy_fuzz PRIVATE src/api/run/npy.cc)
  target_sources(runner_fuzz PRIVATE src/runner/protocol.cc)
endif()
