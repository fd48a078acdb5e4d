// Hashes that are stored. sha256 names workloads, targets and artifacts: the same on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace lw {

// Lower-case hexadecimal SHA-256 of `bytes` (64 characters). Thread-safe.
std::string sha256(std::string_view bytes);

// The same of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  void add(std::string_view bytes);
  std::string finish();                    // once

 private:
  evp_md_ctx_st* context_;                 // OpenSSL's EVP_MD_CTX
};

// 64-bit FNV-1a folded through a finalizer: for tables in memory and for deduplication, and for
// seeds derived from names. Stable across machines and versions (seeds are stored).
uint64_t hash64(std::string_view bytes, uint64_t seed = 0);

// Mixes `value` into `hash`; order matters. The finalizer of splitmix64 over the running state.
inline uint64_t hash_combine(uint64_t hash, uint64_t value) {
  uint64_t z = hash * 0x9e3779b97f4a7c15u + value + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace lw
