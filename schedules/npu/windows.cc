#include "schedules/npu/windows.h"

#include <algorithm>
#include <numeric>

#include "schedules/access.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

using Steps = std::vector<std::vector<int64_t>>;

// What a tensor's axis is of the stage's: one of them, a part of the last, or nothing, having one
// point.
struct AxisPart {
  int axis = -1;       // of the stage
  int64_t unit = 0;    // of the last: value / unit % extent
};

// Of all axes, of which the first `rank` are the result's.
bool find_parts(const Stage& s, const std::vector<int64_t>& extents, size_t rank,
                std::vector<AxisPart>& parts) {
  const int packed = static_cast<int>(s.axes.size()) - 1;
  for (size_t t = 0; t < extents.size(); ++t) {
    const IndexForm form = index_form(s.axis_value[t]);
    parts.push_back({});
    if (form.terms.empty() && extents[t] == 1) continue;
    if (form.terms.size() != 1 || form.constant != 0) return false;
    const IndexForm::Term& term = form.terms[0];
    const bool whole = term.divisor == 1 && term.modulus == 0;
    if (term.factor != 1 || term.over != 1 || (term.axis != packed && !whole)) return false;
    if (t < rank && term.axis != static_cast<int>(t)) return false;
    parts.back() = {term.axis, term.axis == packed ? term.divisor : 0};
  }
  return true;
}

// The tensor's axes that the last of the stage's is made of, outermost first; empty: they are no
// digits of one number.
std::vector<size_t> digits_of(const std::vector<AxisPart>& parts,
                              const std::vector<int64_t>& extents, int64_t extent) {
  std::vector<size_t> digits;
  for (size_t t = 0; t < parts.size(); ++t) {
    if (parts[t].unit > 0) digits.push_back(t);
  }
  std::sort(digits.begin(), digits.end(),
            [&](size_t x, size_t y) { return parts[x].unit > parts[y].unit; });
  int64_t unit = 1;
  for (size_t i = digits.size(); i-- > 0; unit *= extents[digits[i]]) {
    if (parts[digits[i]].unit != unit) return {};
  }
  return unit == extent ? digits : std::vector<size_t>();
}

// The dimension that the axis alone moves, by single steps, and nothing else; -1: there is none.
int own_dim(const Steps& steps, size_t axis) {
  int own = -1;
  for (size_t d = 0; d < steps.size(); ++d) {
    if (steps[d][axis] == 0) continue;
    const int64_t sum = std::accumulate(steps[d].begin(), steps[d].end(), int64_t{0});
    if (own >= 0 || steps[d][axis] != 1 || sum != 1) return -1;
    own = static_cast<int>(d);
  }
  return own;
}

// Dimensions moved by the stage's axes, but for what the last is made of.
Steps by_stage(const Steps& steps, const std::vector<AxisPart>& parts, size_t axes) {
  Steps moved(steps.size(), std::vector<int64_t>(axes));
  for (size_t d = 0; d < steps.size(); ++d) {
    for (size_t t = 0; t < parts.size(); ++t) {
      if (parts[t].axis >= 0 && parts[t].unit == 0) moved[d][parts[t].axis] = steps[d][t];
    }
  }
  return moved;
}

// The weights of a window become one dimension: they are neighbours in the window's order, whole.
bool join_weights(const std::vector<AxisPart>& parts, const std::vector<size_t>& digits,
                  const std::vector<int64_t>& extents, size_t axes, NpuProduct& p) {
  int first = -1, last = -1;
  for (const size_t t : digits) {
    const int d = own_dim(p.b_steps, t);
    if (d <= last || p.b_shape[d] != extents[t]) return false;
    for (int between = last + 1; last >= 0 && between < d; ++between) {
      if (p.b_shape[between] != 1) return false;
    }
    if (first < 0) first = d;
    last = d;
  }
  p.b_steps = by_stage(p.b_steps, parts, axes);
  // Behind it perhaps the one channel that there is.
  const int rank = static_cast<int>(p.b_shape.size());
  int still = last + 1;
  while (still < rank && std::count(p.b_steps[still].begin(), p.b_steps[still].end(), 0) ==
                             static_cast<int64_t>(axes)) {
    ++still;
  }
  if (still == rank) last = rank - 1;
  std::fill(p.b_steps[first].begin(), p.b_steps[first].end(), 0);
  p.b_steps[first].back() = 1;
  for (int d = first + 1; d <= last; ++d) p.b_shape[first] *= p.b_shape[d];
  p.b_steps.erase(p.b_steps.begin() + first + 1, p.b_steps.begin() + last + 1);
  p.b_shape.erase(p.b_shape.begin() + first + 1, p.b_shape.begin() + last + 1);
  p.b_begin.erase(p.b_begin.begin() + first + 1, p.b_begin.begin() + last + 1);
  return true;
}

// Whether windows are one level of positions that lie one behind the other in the picture, and end
// at a multiple of what an instruction reads.
bool lie_in_picture(const npu::Config& config, const NpuProduct& p, size_t axes) {
  const size_t dims = p.picture_steps.size();
  if (p.window.size() != 2 || dims < 2) return false;
  const int64_t pixel = p.window[1].extent;
  for (size_t d = 0; d < dims; ++d) {
    if (p.picture_steps[d][axes] != (d + 2 == dims ? 1 : 0)) return false;
    if (p.picture_steps[d][axes + 1] != (d + 1 == dims ? 1 : 0)) return false;
  }
  return pixel * size_of(p.a->type) % config.spm.align == 0 &&
         pixel * p.window[0].extent % config.align.k == 0;
}

}  // namespace

std::vector<int64_t> axis_extents(const Tensor& tensor) {
  std::vector<int64_t> extents;
  for (const Axis& axis : tensor.axes) extents.push_back(axis.extent);
  for (const Axis& axis : tensor.reduce_axes) extents.push_back(axis.extent);
  return extents;
}

bool take_windows(const Nest& nest, int stage, NpuProduct& p) {
  const Stage& s = nest.stages[stage];
  const size_t axes = s.axes.size(), last = p.a_steps.size() - 1;
  const Tensor& tensor = nest.program->tensors[s.tensor];
  const std::vector<int64_t> extents = axis_extents(tensor);
  std::vector<AxisPart> parts;
  if (p.b_padded || !s.axes.back().reduction) return false;
  if (!find_parts(s, extents, tensor.axes.size(), parts)) return false;
  const std::vector<size_t> digits = digits_of(parts, extents, s.axes.back().extent);
  if (digits.empty() || !join_weights(parts, digits, extents, axes, p)) return false;
  p.picture_steps = by_stage(p.a_steps, parts, axes);
  for (size_t d = 0; d <= last; ++d) {
    for (const size_t t : digits) p.picture_steps[d].push_back(p.a_steps[d][t]);
  }
  for (const size_t t : digits) p.window.push_back({extents[t], parts[t].unit});
  // Channels alone are innermost.
  for (size_t w = 0; w < p.window.size(); ++w) {
    const int64_t step = p.picture_steps[last][axes + w];
    if (step == 0) continue;
    if (w + 1 < p.window.size() || own_dim(p.a_steps, digits[w]) != static_cast<int>(last)) {
      return false;
    }
  }
  p.packs = !lie_in_picture(npu_config(*nest.target), p, axes);
  p.a_steps = by_stage(p.a_steps, parts, axes);
  p.a_steps[last].back() = 1;
  p.pitch.assign(last, 1);
  for (size_t d = 0; p.packs && d < last; ++d) {
    int64_t& pitch = p.pitch[d] = 0;
    for (const int64_t step : p.a_steps[d]) pitch = std::gcd(pitch, step);
    pitch = std::max<int64_t>(1, pitch);
    for (int64_t& step : p.a_steps[d]) step /= pitch;
  }
  return true;
}

std::vector<int64_t> with_window(const NpuProduct& product, std::vector<int64_t> extents) {
  for (const NpuProduct::WindowAxis& axis : product.window) extents.push_back(axis.extent);
  return extents;
}

std::array<int, kWindowLevels> levels_of(const NpuProduct& product) {
  const int count = static_cast<int>(product.window.size());
  const bool channels = count > 0 && product.picture_steps.back().back() != 0;
  std::array<int, kWindowLevels> levels = {-1, -1, -1};
  for (int w = 0; w < count; ++w) {
    const int level = kWindowLevels - count + w - (channels ? 0 : 1);
    if (level >= 0) levels[level] = w;
  }
  return levels;
}

std::string no_packing(const NpuProduct& product) {
  constexpr std::string_view kNames[] = {"rows", "positions of a row", "channels of a position"};
  const std::array<int, kWindowLevels> levels = levels_of(product);
  const int found = kWindowLevels -
                    static_cast<int>(std::count(levels.begin(), levels.end(), -1));
  if (found < static_cast<int>(product.window.size())) {
    return concat("windows of ", product.window.size(), " axes, at most rows, positions and "
                  "channels");
  }
  for (int l = 0; l < kWindowLevels; ++l) {
    const int64_t extent = levels[l] < 0 ? 1 : product.window[levels[l]].extent;
    if (extent > kMostWindow[l]) {
      return concat("windows of ", extent, " ", kNames[l], ", at most ", kMostWindow[l]);
    }
  }
  return "";
}

SourceBox source_box(const Nest& nest, const NpuProduct& product, bool b,
                     const std::vector<int64_t>& extents) {
  SourceBox box;
  box.shape = b ? product.b_shape : nest.program->tensors[product.a->index].shape;
  const bool picture = !b && !product.window.empty();
  const std::vector<int64_t> all = picture ? with_window(product, extents) : extents;
  for (const std::vector<int64_t>& dim : b         ? product.b_steps
                                         : picture ? product.picture_steps
                                                   : product.a_steps) {
    box.extents.push_back(box_extent(dim, all));
  }
  return box;
}

}  // namespace lw
