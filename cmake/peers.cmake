# Vendor libraries to compare with: one shared object per file of src/peers/libraries that names a
# library which is installed. Nothing else links them; src/peers/loader.h opens them at run time.
library(lw_peers FOLDERS src/peers src/peers/match USES lw_measure ${CMAKE_DL_LIBS} WAITS)

# peer(NAME SOURCE...): build/peers/lw_peer_NAME.so.
function(peer name)
  add_library(lw_peer_${name} MODULE ${ARGN})
  set_target_properties(lw_peer_${name} PROPERTIES PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/peers INSTALL_RPATH "$ORIGIN")
  install(TARGETS lw_peer_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/loopwright/peers OPTIONAL)
endfunction()

include(GNUInstallDirs)
peer(openblas src/peers/libraries/openblas.cc src/peers/libraries/cblas_peer.cc)
target_link_libraries(lw_peer_openblas PRIVATE ${CMAKE_DL_LIBS})

find_library(BLIS_LIBRARY blis)
if(BLIS_LIBRARY)
  peer(blis src/peers/libraries/blis.cc src/peers/libraries/cblas_peer.cc)
  target_link_libraries(lw_peer_blis PRIVATE ${CMAKE_DL_LIBS})
endif()

find_library(XSMM_LIBRARY xsmm)
find_library(XSMM_NOBLAS_LIBRARY xsmmnoblas)
find_path(XSMM_INCLUDE libxsmm.h)
if(XSMM_LIBRARY AND XSMM_NOBLAS_LIBRARY AND XSMM_INCLUDE)
  peer(libxsmm src/peers/libraries/libxsmm.cc)
  target_link_libraries(lw_peer_libxsmm PRIVATE ${XSMM_LIBRARY} ${XSMM_NOBLAS_LIBRARY}
                        Threads::Threads ${CMAKE_DL_LIBS})
endif()

# oneDNN as ./setup lays it out: lib/libdnnl.so.3 built for OpenMP, include/ with its headers.
# It brings GCC's OpenMP with it, whichever compiler builds us (Clang's own would be a second one).
find_library(GOMP_LIBRARY NAMES libgomp.so.1)
set(ONEDNN_ROOT ${LOOPWRIGHT_DEPS}/onednn)
if(GOMP_LIBRARY AND EXISTS ${ONEDNN_ROOT}/lib/libdnnl.so.3)
  peer(onednn src/peers/libraries/onednn.cc src/peers/libraries/onednn_gemm.cc src/peers/libraries/onednn_convolution.cc
       src/peers/libraries/onednn_attention.cc)
  target_include_directories(lw_peer_onednn SYSTEM PRIVATE ${ONEDNN_ROOT}/include)
  target_link_libraries(lw_peer_onednn PRIVATE ${ONEDNN_ROOT}/lib/libdnnl.so.3 ${GOMP_LIBRARY})
  set_target_properties(lw_peer_onednn PROPERTIES BUILD_RPATH ${ONEDNN_ROOT}/lib)
  install(FILES ${ONEDNN_ROOT}/lib/libdnnl.so.3
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/loopwright/peers)
else()
  message(STATUS "No oneDNN under ${ONEDNN_ROOT}: run ./setup to have it as a peer")
endif()
