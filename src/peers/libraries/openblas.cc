// OpenBLAS. Its core type is chosen before it is loaded: releases that do not know a host fall back
// to an old core, half as fast on AVX-512 machines. Whatever the environment says: what we compare
// with is the library at its best, of the instructions that everyone is held to (bench/main.cc).
#include <cstdlib>
#include <sstream>

#include "src/peers/libraries/cblas_peer.h"

namespace {

void choose_core_type() {
  if (std::getenv(lw::kPeersHeld) != nullptr) return;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl")) return;
  const bool bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  setenv("OPENBLAS_CORETYPE", bf16 ? "Cooperlake" : "SkylakeX", /*overwrite=*/1);
  unsetenv("OPENBLAS_L2_SIZE");
}

}  // namespace

extern "C" lw::Peer* lw_peer(std::string* why) {
  choose_core_type();
  // Idle workers spin for 2^26 cycles by default, into the next contender's samples; 2^18 is still
  // far longer than the gap between two calls.
  setenv("OPENBLAS_THREAD_TIMEOUT", "18", /*overwrite=*/0);
  static lw::CblasPeer peer("openblas", "libopenblas.so.0", "openblas_set_num_threads");
  if (!peer.ok()) {
    *why = "libopenblas.so.0 cannot be loaded";
    return nullptr;
  }
  auto config = reinterpret_cast<char* (*)()>(peer.symbol("openblas_get_config"));
  auto core = reinterpret_cast<char* (*)()>(peer.symbol("openblas_get_corename"));
  std::string word, version = "unknown";
  std::istringstream words(config ? config() : "");
  if (words >> word >> word) version = word;  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
  peer.set_version(version + (core ? std::string(" ") + core() : ""));
  return &peer;
}
