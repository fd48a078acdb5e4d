// Seeded randomness, the only source of it in the project. Values are copied and split freely: a
// stream is named by its seed, so the same seed gives the same draws on every machine. A stream is
// a hashed counter; where it starts is the seed's hash, because counters that start at the seeds
// themselves are one stream, shifted by a draw from each seed to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/hash.h"

namespace lw {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(hash_combine(0x9ae16a3b2f90404fu, seed)) {}

  uint64_t next() { return hash_combine(0x6c62272e07bb0142u, state_++ * 0xd1342543de82ef95u + 1); }

  // Uniform in [0, n). REQUIRES: n > 0. (The high half of the product; its bias is below 2^-40 for
  // our n, and it costs no division.)
  int64_t below(int64_t n) {
    CHECK(n > 0);
    return static_cast<int64_t>(static_cast<unsigned __int128>(next()) * static_cast<uint64_t>(n) >>
                                64);
  }

  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // Into any order, each as likely.
  template <class T>
  void shuffle(std::vector<T>* list) {
    for (size_t i = list->size(); i > 1; --i) {
      std::swap((*list)[i - 1], (*list)[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    }
  }

  // An independent stream for slot `index`.
  Rng split(uint64_t index) const { return Rng(hash_combine(state_, index)); }

 private:
  uint64_t state_;
};

}  // namespace lw
