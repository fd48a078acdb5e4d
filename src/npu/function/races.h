// Who may touch what at the same time as whom: two accesses of the same bytes, one of them a write,
// neither of which is certain to be done before the other begins (order.h).
//
// Whatever the timing: a race is one of the program, found whether or not it showed in this run,
// since which token an instruction takes never depends on time. Reads by MX of what MX writes later
// are no races: it reads when it begins, and begins in order.
//
// Exact: what the program touches of a memory falls into areas that no access straddles, and an
// area into granules of the greatest common divisor of all addresses (from its begin), lengths and
// strides there, so that no access has a part of a granule; interleaved tiles that share no byte
// never meet. Of each granule and chain the last read and the last write are kept (shadow.h): the
// ones before them were done earlier. Cost: a comparison a granule for each chain, for each access,
// or one for all of a page that one access covered; memory 4 bytes a granule of what is touched,
// for each chain that reads the area and each that writes it, and next to none where accesses
// cover pages, or nothing.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "src/npu/function/access.h"
#include "src/npu/function/order.h"
#include "src/npu/function/shadow.h"

namespace lw::npu {

struct Race {
  uint32_t first = 0, second = 0;          // instructions, in the order of this run
  bool first_writes = false, second_writes = false;
  Place place = Place::kSpm;
  int64_t begin = 0, end = 0;              // a run of bytes (words of ACC) that both touch
};

class RaceDetector {
 public:
  explicit RaceDetector(const Program& program);

  // An instruction begins, when `done` is done. REQUIRES: in the order of time. Appends what it
  // races with: a line for each pair of instructions and place.
  void begin(uint32_t index, const Clock& done, std::vector<Race>* races);

 private:
  struct Area {
    int64_t begin, end, granule = 0;
    // By reads, writes and chain, of each granule: 1 + the instruction that touched it last, 0
    // none. Not there: the chain never did.
    std::array<std::array<std::unique_ptr<Shadow>, kChains>, 2> last;
  };

  Area& area_of(const Access& access);
  void look(uint32_t index, const Access& access, const Clock& done, std::vector<Race>* races);

  const Program& program_;
  std::array<std::vector<Area>, kPlaces> areas_;     // by address, disjoint
};

// "instruction 12 (mx.mm a=...) writes ACC [0x0, 0x40) ...; what to do".
std::string describe(const Program& program, const Race& race);

}  // namespace lw::npu
