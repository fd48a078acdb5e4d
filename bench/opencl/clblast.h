// CLBlast on the queue and the buffers that our kernels have, as its own tuner sets it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/measure/simt/opencl_session.h"
#include "src/peers/peer.h"

namespace lw {

class ClBlast {
 public:
  // kNotFound: the library is not here.
  static absl::StatusOr<ClBlast> load();

  struct Way {
    std::string name;                      // "gemm, tiles" or "gemm, direct"
    std::function<void()> select;          // before its calls
    std::function<absl::Status()> enqueue;
  };
  // All ways in which it computes `description` on these buffers, of the program's arguments; none
  // where it has no such routine. Each way to a product has the parameters of that of `folders`, each
  // with files of its tuners for one product, by which it is fastest: tuners fail at some products,
  // and what they found for another may be better. REQUIRES: session and buffers outlive the ways.
  absl::StatusOr<std::vector<Way>> prepare(const PeerCase& description,
                                           const std::vector<cl::Memory>& buffers,
                                           OpenClSession* session,
                                           const std::vector<std::string>& folders) const;

 private:
  void* library_ = nullptr;                // for the life of the process
};

// What a tuner left in `folder` for one kernel: its best parameters and how many it tried.
struct TunedParameters {
  std::map<std::string, size_t> values;
  int64_t tried = 0;
  double time_ms = 0;
};
// The faster of the files of a kernel's search; kNotFound: there is none.
absl::StatusOr<TunedParameters> tuned_parameters(const std::string& folder,
                                                 const std::vector<std::string>& families);

}  // namespace lw
