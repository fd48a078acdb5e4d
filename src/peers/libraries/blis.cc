// BLIS. Like OpenBLAS it must be told to use its AVX-512 kernels on hosts that it does not know.
#include <cstdlib>

#include "src/peers/libraries/cblas_peer.h"

extern "C" lw::Peer* lw_peer(std::string* why) {
  __builtin_cpu_init();
  const bool held = std::getenv(lw::kPeersHeld) != nullptr;
  if (!held && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
    setenv("BLIS_ARCH_TYPE", "0", /*overwrite=*/1);  // skx
  static lw::CblasPeer peer("blis", "libblis.so.4", "bli_thread_set_num_threads");
  if (!peer.ok()) {
    *why = "libblis.so.4 cannot be loaded";
    return nullptr;
  }
  auto version = reinterpret_cast<const char* (*)()>(peer.symbol("bli_info_get_version_str"));
  peer.set_version(version ? version() : "unknown");
  return &peer;
}
