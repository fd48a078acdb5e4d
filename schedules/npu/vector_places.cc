// Which computed values share a place: one is dead before the next is written, and both lie alike.
#include <vector>

#include "schedules/npu/vector.h"

namespace lw {
namespace {

class Places {
 public:
  explicit Places(VectorCode& code)
      : code_(code), last_(code.values.size(), -1), end_(static_cast<int>(code.ops.size())) {
    for (int i = 0; i < end_; ++i) {
      for (const int value : code_.ops[static_cast<size_t>(i)].srcs) {
        if (value >= 0) last_[static_cast<size_t>(value)] = i;
      }
    }
    for (const int value : {code_.body, code_.rows, code_.partial, code_.result, code_.stored}) {
      last_[static_cast<size_t>(value)] = end_;
    }
  }

  void find() {
    for (int i = 0; i < end_; ++i) find(code_.ops[static_cast<size_t>(i)].dst, i);
    for (const int value : {code_.rows, code_.partial, code_.result, code_.stored}) {
      find(value, end_);
    }
  }

 private:
  // Of a value that operation `now` writes.
  void find(int number, int now) {
    VectorValue& value = code_.values[static_cast<size_t>(number)];
    if (value.kind != VectorValue::Kind::kComputed || value.place >= 0) return;
    const int last = last_[static_cast<size_t>(number)];
    size_t place = 0;
    while (place < busy_.size() && !(last < end_ && is_free(place, value.tile, now))) ++place;
    if (place == busy_.size()) {
      busy_.push_back(0);
      code_.places.emplace_back();
    }
    value.place = static_cast<int>(place);
    code_.places[place].push_back(number);
    busy_[place] = last;
  }

  bool is_free(size_t place, const VectorTile& tile, int now) const {
    const VectorTile& other = code_.values[static_cast<size_t>(code_.places[place][0])].tile;
    return busy_[place] < now && other.steps == tile.steps && other.memory == tile.memory;
  }

  VectorCode& code_;
  std::vector<int> last_;                  // by value: the operation that reads it last
  const int end_;                          // after all of them
  std::vector<int> busy_;                  // by place: until which operation
};

}  // namespace

void find_places(VectorCode& code) { Places(code).find(); }

}  // namespace lw
