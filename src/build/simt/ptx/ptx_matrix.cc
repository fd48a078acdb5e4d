#include "src/build/simt/ptx/ptx_matrix.h"

#include "src/base/message.h"
#include "src/kernel/ops.h"

namespace lw {

std::string ptx_matrix_words(PtxLanes& lanes, std::span<const int> registers) {
  std::string text;
  for (const int reg : registers) {
    for (const std::string& word : lanes.words(reg)) {
      text += concat(text.empty() ? "" : ", ", word);
    }
  }
  return concat("{", text, "}");
}

std::string ptx_matrix_type(Type type) {
  if (is_float(type)) return std::string(type_name(type));
  return concat(is_signed(type) ? "s" : "u", 8 * size_of(type));
}

void ptx_matrix_product(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s) {
  const MatrixShape& shape = *matrix_shape(kernel, s);
  const std::span<const int> many = s.many;
  const size_t accs = static_cast<size_t>(shape.acc_registers()),
               as = static_cast<size_t>(shape.a_registers());
  const std::string acc = ptx_matrix_words(lanes, many.first(accs)), t = ptx_matrix_type(shape.acc);
  code.line("mma.sync.aligned.m", shape.m, "n", shape.n, "k", shape.k, ".row.col.", t, ".",
            ptx_matrix_type(shape.a), ".", ptx_matrix_type(shape.b), ".", t, " ", acc, ", ",
            ptx_matrix_words(lanes, many.subspan(accs, as)), ", ",
            ptx_matrix_words(lanes, many.subspan(accs + as)), ", ", acc);
}

void ptx_matrix_parts(PtxCode& code, PtxLanes& lanes, const Stmt& s, const PtxPlace& row) {
  code.line("ldmatrix.sync.aligned.m8n8.x4", s.integer == 1 ? ".trans" : "", ".shared.b16 ",
            ptx_matrix_words(lanes, s.many), ", ", row.text());
}

// Descriptors of matrices (PTX ISA, 9.7.16.5.1), of rows of 128 bytes that are swizzled in eights: the
// address, from what to what a matrix of several panels steps, and from eight rows to the next, in units
// of 16 bytes.
namespace {

constexpr int64_t kUnit = 16, kEightRows = 8 * kWideRowBytes;
constexpr int64_t kSwizzled128 = int64_t{1} << 30;  // bits 62 and 63 of the whole

struct Layout {
  bool transposed = false;                 // rows run along m or n
  int64_t panel_bytes = kUnit;             // any, where there is one panel
};

// Nothing: other strides than an instruction has.
std::string layout_of(const Block& block, const View& view, bool of_a, int64_t size,
                      Layout* layout) {
  const int64_t row = kWideRowBytes / size;
  const int64_t next = view.strides[of_a ? 0 : 2], next_k = view.strides[3];
  layout->transposed = next == 1 && next_k == row;
  if (!layout->transposed && (next != row || next_k != 1)) return "wgmma of no rows of 128 bytes";
  if (layout->transposed && size != 2) return "wgmma transposes elements of two bytes only";
  if (of_a || block.extents[1] == 1) return "";
  if (!layout->transposed || block.extents[2] != row) return "wgmma of no such panels";
  layout->panel_bytes = view.strides[1] * size;
  const bool fits = layout->panel_bytes > 0 && layout->panel_bytes % kEightRows == 0 &&
                    layout->panel_bytes / kUnit < (1 << 14);
  return fits ? "" : "wgmma of panels that are too far apart";
}

std::string descriptor(PtxCode& code, const std::string& address, int64_t bytes,
                       const Layout& layout) {
  const std::string at = code.word(), units = code.word(), low = code.word(), high = code.word(),
                    both = code.wide();
  code.line("add.s32 ", at, ", ", address, ", ", bytes);
  code.line("shr.u32 ", units, ", ", at, ", 4");
  code.line("or.b32 ", low, ", ", units, ", ", layout.panel_bytes / kUnit << 16);
  code.line("mov.b32 ", high, ", ", kEightRows / kUnit | kSwizzled128);
  code.line("mov.b64 ", both, ", {", low, ", ", high, "}");
  return both;
}

// Of the first of the four warps, whose rows begin the matrix.
std::string first_warps(PtxCode& code, const std::string& address, int64_t warp_bytes) {
  const std::string item = code.word(), warp = code.word(), of_four = code.word(),
                    first = code.word();
  code.line("mov.u32 ", item, ", %tid.x");
  code.line("shr.u32 ", warp, ", ", item, ", 5");
  code.line("and.b32 ", of_four, ", ", warp, ", 3");
  code.line("mad.lo.s32 ", first, ", ", of_four, ", ", -warp_bytes, ", ", address);
  return first;
}

}  // namespace

std::string ptx_wide_product(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s,
                             std::span<const PtxPlace> factors) {
  const MatrixShape& shape = *matrix_shape(kernel, s);
  const Block& block = *s.block;
  const int64_t columns = block.extents[1] * block.extents[2], size = size_of(shape.a);
  if (columns > kWideColumns || (size == 1 && columns > 32 && columns % 16 != 0)) {
    return concat("wgmma of ", columns, " columns");
  }
  std::string a, b, turns;                 // of 16-bit factors in memory, which are transposed
  for (const View& view : factors_of(s)) {
    const PtxPlace& place = factors[static_cast<size_t>(&view - factors_of(s).data())];
    const bool of_a = &view == block.srcs;
    Layout layout;
    std::string refusal = layout_of(block, view, of_a, size, &layout);
    if (!refusal.empty()) return refusal;
    const std::string base =
        of_a ? first_warps(code, place.base, shape.m * view.strides[0] * size) : place.base;
    (of_a ? a : b) = descriptor(code, base, place.bytes, layout);
    if (size == 2) turns += concat(", ", int{layout.transposed});
  }
  if (a.empty()) a = ptx_matrix_words(lanes, factor_registers(s));
  const std::string always = code.flag(), zero = code.word();
  code.line("mov.b32 ", zero, ", 0");
  code.line("setp.eq.s32 ", always, ", ", zero, ", 0");
  const bool integers = !is_float(shape.acc);
  const std::string scales = integers ? "" : ", 1, 1";
  code.line("wgmma.mma_async.sync.aligned.m", kWideRows, "n", columns, "k", shape.k, ".",
            ptx_matrix_type(shape.acc), ".", ptx_matrix_type(shape.a), ".",
            ptx_matrix_type(shape.b), " ", ptx_matrix_words(lanes, written_of_many(s)), ", ", a,
            ", ", b, ", ", always, scales, turns);
  return "";
}

}  // namespace lw
