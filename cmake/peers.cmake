# Vendor libraries to compare with: one shared object per file of bench/peers/ that names a library
# which is installed. Nothing else links them; bench/peers/loader.h opens them at run time.
add_library(lw_peers STATIC bench/interleave.cc bench/judge.cc bench/peers/loader.cc bench/peers/match.cc
            bench/peers/match_convolution.cc bench/peers/match_attention.cc bench/peers/access.cc bench/peers/flow.cc
            bench/peers/known_functions.cc)
target_link_libraries(lw_peers PUBLIC lw_measure ${CMAKE_DL_LIBS})

# peer(NAME SOURCE...): build/peers/lw_peer_NAME.so.
function(peer name)
  add_library(lw_peer_${name} MODULE ${ARGN})
  set_target_properties(lw_peer_${name} PROPERTIES PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/peers INSTALL_RPATH "$ORIGIN")
  install(TARGETS lw_peer_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/loopwright/peers)
endfunction()

include(GNUInstallDirs)
peer(openblas bench/peers/openblas.cc bench/peers/cblas_peer.cc)
target_link_libraries(lw_peer_openblas PRIVATE ${CMAKE_DL_LIBS})

find_library(BLIS_LIBRARY blis)
if(BLIS_LIBRARY)
  peer(blis bench/peers/blis.cc bench/peers/cblas_peer.cc)
  target_link_libraries(lw_peer_blis PRIVATE ${CMAKE_DL_LIBS})
endif()

find_library(XSMM_LIBRARY xsmm)
find_library(XSMM_NOBLAS_LIBRARY xsmmnoblas)
find_path(XSMM_INCLUDE libxsmm.h)
if(XSMM_LIBRARY AND XSMM_NOBLAS_LIBRARY AND XSMM_INCLUDE)
  peer(libxsmm bench/peers/libxsmm.cc)
  target_link_libraries(lw_peer_libxsmm PRIVATE ${XSMM_LIBRARY} ${XSMM_NOBLAS_LIBRARY}
                        Threads::Threads ${CMAKE_DL_LIBS})
endif()

# oneDNN as ./setup lays it out: lib/libdnnl.so.3 built for OpenMP, include/ with its headers.
# It brings GCC's OpenMP with it, whichever compiler builds us (Clang's own would be a second one).
find_library(GOMP_LIBRARY NAMES libgomp.so.1)
set(ONEDNN_ROOT ${LOOPWRIGHT_DEPS}/onednn)
if(GOMP_LIBRARY AND EXISTS ${ONEDNN_ROOT}/lib/libdnnl.so.3)
  peer(onednn bench/peers/onednn.cc bench/peers/onednn_gemm.cc bench/peers/onednn_convolution.cc
       bench/peers/onednn_attention.cc)
  target_include_directories(lw_peer_onednn SYSTEM PRIVATE ${ONEDNN_ROOT}/include)
  target_link_libraries(lw_peer_onednn PRIVATE ${ONEDNN_ROOT}/lib/libdnnl.so.3 ${GOMP_LIBRARY})
  set_target_properties(lw_peer_onednn PROPERTIES BUILD_RPATH ${ONEDNN_ROOT}/lib)
  install(FILES ${ONEDNN_ROOT}/lib/libdnnl.so.3
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/loopwright/peers)
else()
  message(STATUS "No oneDNN under ${ONEDNN_ROOT}: run ./setup to have it as a peer")
endif()
