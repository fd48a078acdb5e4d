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

}  // namespace lw
