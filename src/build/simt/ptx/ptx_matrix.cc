#include "src/build/simt/ptx/ptx_matrix.h"

#include <span>
#include <string>

#include "src/base/message.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

// "{%r1, %r2}": the registers' words.
std::string words_of(PtxLanes& lanes, std::span<const int> registers) {
  std::string text;
  for (const int reg : registers) {
    for (const std::string& word : lanes.words(reg)) {
      text += concat(text.empty() ? "" : ", ", word);
    }
  }
  return concat("{", text, "}");
}

std::string type_word(Type type) {
  if (is_float(type)) return std::string(type_name(type));
  return concat(is_signed(type) ? "s" : "u", 8 * size_of(type));
}

}  // namespace

void ptx_matrix_product(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s) {
  const MatrixShape& shape = *matrix_shape(kernel, s);
  const std::span<const int> many = s.many;
  const size_t accs = static_cast<size_t>(shape.acc_registers()),
               as = static_cast<size_t>(shape.a_registers());
  const std::string acc = words_of(lanes, many.first(accs)), t = type_word(shape.acc);
  code.line("mma.sync.aligned.m", shape.m, "n", shape.n, "k", shape.k, ".row.col.", t, ".",
            type_word(shape.a), ".", type_word(shape.b), ".", t, " ", acc, ", ",
            words_of(lanes, many.subspan(accs, as)), ", ",
            words_of(lanes, many.subspan(accs + as)), ", ", acc);
}

void ptx_matrix_parts(PtxCode& code, PtxLanes& lanes, const Stmt& s, const PtxPlace& row) {
  code.line("ldmatrix.sync.aligned.m8n8.x4", s.integer == 1 ? ".trans" : "", ".shared.b16 ",
            words_of(lanes, s.many), ", ", row.text());
}

}  // namespace lw
