#include "src/build/simt/ptx/ptx_turns.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/expr/expr.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

// Lanes that are under way at once: as many as hide what an instruction takes.
constexpr int kAtOnce = 16;

bool applies_function(const Stmt& s) {
  return (is_op(s, Op::kUnary) || is_op(s, Op::kBinary)) && is_function(s.expr_op);
}

bool is_plain(const Stmt& s) { return s.kind == Stmt::Kind::kOp || s.kind == Stmt::Kind::kInt; }

// Statements up to a store, that included: a result, or what is stored of it.
struct Section {
  size_t first;
  bool function = false;
  std::set<int> reads;                     // of registers that are from before the straight code
};

std::vector<Section> sections_of(const std::vector<Stmt>& list) {
  std::vector<Section> sections;
  std::set<int> own;
  bool open = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const Stmt& s = list[i];
    if (!is_plain(s)) {                    // as a loop, in which results become what they are
      open = false;
      own.clear();
      continue;
    }
    if (!open) sections.push_back({i});
    open = !is_op(s, Op::kStore);
    Section& section = sections.back();
    section.function = section.function || applies_function(s);
    visit_read(s, [&](int reg) {
      if (!own.contains(reg)) section.reads.insert(reg);
    });
    if (s.dst >= 0) own.insert(s.dst);
    for (const int reg : written_of_many(s)) own.insert(reg);
  }
  return sections;
}

}  // namespace

PtxTurns::PtxTurns(const Kernel& kernel, PtxCode* code, PtxLanes* lanes,
                   const std::vector<Stmt>& list)
    : kernel_(kernel), code_(*code), lanes_(*lanes), list_(list) {
  if (std::none_of(list.begin(), list.end(), applies_function)) return;
  const std::vector<Section> sections = sections_of(list);
  std::map<int, int> readers;
  for (const Section& section : sections) {
    for (const int reg : section.reads) ++readers[reg];
  }
  waiting_.resize(list.size());
  for (const Section& section : sections) {
    if (!section.function) continue;
    for (const int reg : section.reads) {
      if (readers[reg] == 1) waiting_[section.first].push_back(reg);
    }
  }
}

void PtxTurns::before(size_t i) {
  if (waiting_.empty()) return;
  for (const int reg : waiting_[i]) wait(reg);
}

void PtxTurns::after(size_t i) {
  const Stmt& s = list_[i];
  if (waiting_.empty() || !is_op(s, Op::kStore)) return;
  const Register& r = kernel_.registers[s.srcs[0]];
  if (ptx_bits(r.type) != 32) return;
  const std::vector<std::string>& words = lanes_.words(s.srcs[0]);
  const int before = made_.empty() ? 0 : made_.back().lanes;
  for (const std::string& word : words) made_.push_back({word, before + r.lanes});
}

// w | (made & 0), of a 0 that ptxas does not know: launches have one dimension. Each word waits for
// another one, since of those that none waits for parts are left to be made.
void PtxTurns::wait(int reg) {
  if (ptx_bits(kernel_.registers[reg].type) != 32 || made_.empty()) return;
  const int limit = made_.back().lanes - kAtOnce;
  const auto late = std::find_if(made_.begin(), made_.end(),
                                 [&](const Made& made) { return made.lanes > limit; });
  if (late == made_.begin()) return;
  if (zero_.empty()) {
    zero_ = code_.word();
    code_.line_at(0, "mov.u32 ", zero_, ", %ctaid.z");
  }
  const size_t last = static_cast<size_t>(late - made_.begin()) - 1;
  for (const std::string& word : lanes_.words(reg)) {
    const std::string& made = made_[std::min(next_++, last)].word;
    code_.line("lop3.b32 ", word, ", ", word, ", ", made, ", ", zero_, ", 0xf8");
  }
}

}  // namespace lw
