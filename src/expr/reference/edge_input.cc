// Inputs where numbers are not tame. A tensor's slices along the axes that no reduction runs over
// are each of a class, so that some results see nothing else and most see something natural beside
// it: zeros, one value throughout, subnormals, large numbers, infinities (a mask that leaves nothing),
// the ends of an integer type.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

enum class Class { kNatural, kZero, kEqual, kSubnormal, kLarge, kInfinite, kMixed };

// Of the tensor's dimensions, those that no read of it takes through a reduction's axis.
std::vector<bool> kept_dimensions(const Program& program, int tensor) {
  std::vector<bool> kept(program.tensors[static_cast<size_t>(tensor)].shape.size(), true);
  for (const Tensor& user : program.tensors) {
    if (!user.body) continue;
    const int spatial = static_cast<int>(user.axes.size());
    visit(user.body, [&](const ExprNode& node) {
      if (node.op != ExprOp::kRead || node.index != tensor) return;
      for (size_t d = 0; d < node.args.size(); ++d) {
        visit(node.args[d], [&](const ExprNode& index) {
          if (index.op == ExprOp::kAxis && index.index >= spatial) kept[d] = false;
        });
      }
    });
  }
  return kept;
}

// The position of each element's slice, for elements in order.
class Slices {
 public:
  Slices(const Program& program, int tensor)
      : shape_(program.tensors[static_cast<size_t>(tensor)].shape),
        kept_(kept_dimensions(program, tensor)) {}
  bool any() const { return std::find(kept_.begin(), kept_.end(), true) != kept_.end(); }
  uint64_t of(int64_t element) const {
    uint64_t slice = 0, stride = 1;
    for (size_t d = shape_.size(); d-- > 0; element /= shape_[d]) {
      if (!kept_[d]) continue;
      slice += stride * static_cast<uint64_t>(element % shape_[d]);
      stride *= static_cast<uint64_t>(shape_[d]);
    }
    return slice;
  }

 private:
  const std::vector<int64_t>& shape_;
  std::vector<bool> kept_;
};

Class draw_class(Rng rng) {
  constexpr Class kClasses[] = {Class::kNatural, Class::kNatural,   Class::kNatural,
                                Class::kZero,    Class::kEqual,     Class::kSubnormal,
                                Class::kLarge,   Class::kInfinite,  Class::kMixed,
                                Class::kMixed};
  return kClasses[rng.below(std::size(kClasses))];
}

double draw_float(Class kind, double natural, double equal, Type type, bool subnormals, Rng& rng) {
  const double signed_unit = std::copysign(rng.uniform(), natural);
  switch (kind) {
    case Class::kZero: return 0;
    case Class::kEqual: return equal;
    case Class::kSubnormal: return subnormals ? signed_unit * smallest_normal(type) : natural;
    case Class::kLarge: return signed_unit * std::sqrt(largest_finite(type));
    case Class::kInfinite: return equal > 0 ? INFINITY : -INFINITY;
    case Class::kMixed: {
      const double some[] = {0, natural, natural, std::copysign(1.0, natural)};
      return some[rng.below(4)];
    }
    default: return natural;
  }
}

}  // namespace

void fill_edge_input(const Program& program, int tensor, uint64_t seed, bool subnormals,
                     std::byte* out) {
  fill_random_input(program, tensor, seed, /*integers=*/false, out);
  const Tensor& input = program.tensors[static_cast<size_t>(tensor)];
  const InputRange range = input_range(program, tensor);
  const Slices slices(program, tensor);
  const Rng base = Rng(seed).split(static_cast<uint64_t>(tensor)).split(1);
  Rng rng = base.split(0);
  const IntegerRange all = integer_range(input.type);
  // Where values choose what is read, or a range is asked for, they stay in it.
  const bool bound = !is_float(input.type) && input.type != Type::kBool && range.lo > -128 &&
                     !(range.lo == 0 && range.hi == 255);
  const int64_t lo = bound ? static_cast<int64_t>(range.lo) : all.lo;
  const int64_t hi = bound ? static_cast<int64_t>(range.hi) : all.hi;
  const bool positive = range.lo > 0;
  for (int64_t i = 0; i < elements(input); ++i) {
    const Rng own = base.split(1 + slices.of(i));
    const Class kind = slices.any() ? draw_class(own) : Class::kMixed;
    if (is_float(input.type)) {
      const double natural = load_element(input.type, out, i);
      const double drawn = 2 * own.split(1).uniform() - 1;
      const double equal = positive ? 0.25 + std::fabs(drawn) / 2 : drawn;
      store_element(input.type, out, i,
                    draw_float(kind, natural, equal, input.type, subnormals, rng));
    } else if (input.type == Type::kBool) {
      if (kind == Class::kZero || kind == Class::kInfinite) store_integer(input.type, out, i, 0);
      if (kind == Class::kEqual) store_integer(input.type, out, i, 1);
    } else if (kind == Class::kZero || kind == Class::kSubnormal) {
      store_integer(input.type, out, i, std::clamp<int64_t>(0, lo, hi));
    } else if (kind == Class::kLarge || kind == Class::kInfinite) {
      store_integer(input.type, out, i, rng.below(2) == 0 ? lo : hi);
    } else if (kind == Class::kMixed && rng.below(4) == 0) {
      const int64_t some[] = {lo, hi, 0, 1, -1};
      store_integer(input.type, out, i, std::clamp(some[rng.below(5)], lo, hi));
    }
  }
}

}  // namespace lw
