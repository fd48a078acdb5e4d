// Statements become lines of the same order. A register is declared where it is first written, if
// nothing outside of that list of statements mentions it, else at the top. Integer variables are
// ints where the buffers are small enough; their ranges, which are known, say whether a division
// must round down.
#include "src/build/simt/opencl_function.h"

#include <algorithm>
#include <map>

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/opencl_memory.h"
#include "src/build/simt/opencl_text.h"
#include "src/build/simt/ranges.h"
#include "src/expr/scalar.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

using Parameter = SimtProgram::Parameter;

// Registers that the statement itself mentions, the one that it writes among them.
void registers_of(const Stmt& s, const auto& visit) {
  for (int r : {s.dst, s.srcs[0], s.srcs[1], s.srcs[2], s.mask, s.indices}) {
    if (r >= 0) visit(r);
  }
  for (int r : s.many) visit(r);
}

// One launch's function.
class Function {
 public:
  Function(const OpenClNames& names, Prelude* prelude)
      : kernel_(names.kernel), target_(simt(names.target)), buffers_(names.buffers),
        variables_(names.variables), index_type_(names.index_type), prelude_(prelude),
        ranges_(kernel_), names_(kernel_.registers.size()) {
    for (size_t r = 0; r < names_.size(); ++r) names_[r] = concat("r", uint64_t{r});
  }

  // `before`: integers that the top has defined so far.
  absl::StatusOr<std::string> print(const std::string& name, const std::vector<Stmt>& before,
                                    const std::vector<Stmt>& statements, bool prepack,
                                    SimtProgram::Launch* launch) {
    const bool grid = statements.size() == 1 && is_parallel(statements[0]);
    launch->kernel = name;
    launch->groups = grid ? statements[0].count : 1;
    launch->items = grid ? statements[0].items : 1;
    items_ = launch->items;
    if (items_ > target_.group_items) {
      return absl::InvalidArgumentError(concat("a group of ", items_, " items: the device takes ",
                                               target_.group_items));
    }
    depth_ = 1;
    const std::vector<Stmt>& body = grid ? statements[0].body : statements;
    find_uses(body);
    std::string text = concat("__kernel __attribute__((reqd_work_group_size(", items_, ", 1, 1)))");
    if (sub_group_ > 1) {
      text += concat("\n__attribute__((intel_reqd_sub_group_size(", sub_group_, ")))");
    }
    text += concat("\nvoid ", name, "(");
    text += parameters(body, prepack, launch) + ") {\n";
    body_.clear();
    declare_memory(body);
    for (const Stmt& s : before) {
      ranges_.define(s, items_);
      if (variables_used_[s.var]) integer(s);
    }
    if (grid) {
      const Stmt& loop = statements[0];
      ranges_[loop.var] = {0, loop.count - 1};
      if (variables_used_[loop.var]) {
        line("const ", index_type_, " ", variables_[loop.var], " = get_group_id(0);");
      }
    }
    declare_registers();
    list(body);
    RETURN_IF_ERROR(failure_);
    return text + body_ + "}\n";
  }

  const absl::Status& failure() const { return failure_; }

 private:
  template <class... Parts>
  void line(const Parts&... parts) {
    body_.append(2 * depth_, ' ');
    body_ += concat(parts..., "\n");
  }

  void fail(std::string_view what) {
    if (failure_.ok()) failure_ = absl::InvalidArgumentError(concat("OpenCL C: ", what));
  }

  // ---- what is mentioned where ------------------------------------------------------------------

  // The lists that a register's mentions have in common, and whether the first is a definition in
  // the innermost of these.
  struct Use {
    std::vector<int> path;
    bool mentioned = false, local = false;
  };

  void find_uses(const std::vector<Stmt>& body) {
    uses_.assign(kernel_.registers.size(), {});
    buffers_used_.assign(kernel_.buffers.size(), false);
    buffers_written_.assign(kernel_.buffers.size(), false);
    variables_used_.assign(kernel_.variables, false);
    sub_group_ = 1;
    lists_ = 0;
    std::vector<int> path;
    visit_list(body, path);
    declared_.assign(kernel_.registers.size(), false);
  }

  void exchange_in(int64_t sub_group) {
    if (sub_group != 1 && sub_group != target_.sub_group) {
      fail(concat("sub-groups of ", sub_group, " items: the device's have ", target_.sub_group));
    }
    sub_group_ = std::max(sub_group_, sub_group);
  }

  void use_variables(const Affine& a) {
    for (const Affine::Term& term : a.terms) variables_used_[term.var] = true;
  }

  void visit_list(const std::vector<Stmt>& list, std::vector<int>& path) {
    path.push_back(lists_++);
    for (const Stmt& s : list) {
      registers_of(s, [&](int r) {
        Use& use = uses_[r];
        if (!use.mentioned) {
          use = {path, true, s.dst == r};
          return;
        }
        size_t common = 0;
        while (common < use.path.size() && common < path.size() &&
               use.path[common] == path[common]) {
          ++common;
        }
        if (common < use.path.size()) {
          use.path.resize(common);
          use.local = false;               // its definition stood further inside
        }
      });
      if (s.kind == Stmt::Kind::kOp && s.buffer >= 0 && s.op != Op::kPrefetch) {
        buffers_used_[s.buffer] = true;
        buffers_written_[s.buffer] = buffers_written_[s.buffer] || s.op == Op::kStore;
      }
      if (s.kind == Stmt::Kind::kOp && s.op == Op::kAcross) exchange_in(s.integer);
      use_variables(s.a);
      use_variables(s.b);
      use_variables(s.index);
      for (const Affine& condition : s.conditions) use_variables(condition);
      visit_list(s.body, path);
      visit_list(s.otherwise, path);
    }
    path.pop_back();
  }

  // ---- declarations -----------------------------------------------------------------------------

  std::string parameters(const std::vector<Stmt>& body, bool prepack,
                         SimtProgram::Launch* launch) {
    std::string text;
    const auto add = [&](Parameter parameter, const std::string& declaration) {
      launch->parameters.push_back(parameter);
      text += concat(text.empty() ? "" : ",\n    ", declaration);
    };
    bool workspace = false, packed = false;
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      if (!buffers_used_[b]) continue;
      const Buffer& buffer = kernel_.buffers[b];
      workspace = workspace || buffer.scope == Scope::kWorkspace;
      packed = packed || buffer.scope == Scope::kPacked;
      if (buffer.scope != Scope::kArgument) continue;
      add({Parameter::Kind::kArgument, buffer.slot},
          concat("__global ", buffers_written_[b] ? "" : "const ", cl_type(buffer.type),
                 "* restrict ", buffers_[b]));
    }
    if (workspace) add({Parameter::Kind::kWorkspace, 0}, "__global uchar* restrict workspace");
    if (packed) {
      add({Parameter::Kind::kPacked, 0},
          concat("__global ", prepack ? "" : "const ", "uchar* restrict packed"));
    }
    return text;
  }

  void declare_memory(const std::vector<Stmt>& body) {
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      if (!buffers_used_[b]) continue;
      const Buffer& buffer = kernel_.buffers[b];
      const std::string type = cl_type(buffer.type);
      const std::string aligned = " __attribute__((aligned(64)));";
      switch (buffer.scope) {
        case Scope::kArgument: break;
        case Scope::kWorkspace: case Scope::kPacked: {
          const bool packed = buffer.scope == Scope::kPacked;
          const std::string pointer =
              concat("__global ", packed && !buffers_written_[b] ? "const " : "", type, "*");
          line(pointer, " const ", buffers_[b], " = (", pointer, ")(",
               packed ? "packed" : "workspace", " + ", buffer.offset, ");");
          break;
        }
        case Scope::kPrivate:
          line(type, " ", buffers_[b], "[", buffer.elements, "]", aligned);
          break;
        case Scope::kManaged:
          line("__local ", type, " ", buffers_[b], "[", buffer.elements, "]", aligned);
          break;
      }
    }
  }

  std::string space_of(int buffer) const {
    switch (kernel_.buffers[buffer].scope) {
      case Scope::kPrivate: return "";
      case Scope::kManaged: return "__local ";
      default: return "__global ";
    }
  }

  // Those that are no list's own.
  void declare_registers() {
    std::map<std::string, std::string> by_type;
    for (size_t r = 0; r < uses_.size(); ++r) {
      if (!uses_[r].mentioned || uses_[r].local) continue;
      declared_[r] = true;
      std::string& list = by_type[cl_type(kernel_.registers[r].type, kernel_.registers[r].lanes)];
      list += concat(list.empty() ? "" : ", ", names_[r]);
    }
    for (const auto& [type, list] : by_type) line(type, " ", list, ";");
  }

  // "float16 r3" where it is declared here.
  std::string target_of(int reg) {
    if (declared_[reg]) return names_[reg];
    declared_[reg] = true;
    return concat(cl_type(kernel_.registers[reg].type, kernel_.registers[reg].lanes), " ",
                  names_[reg]);
  }

  // ---- statements -------------------------------------------------------------------------------

  std::string text_of(const Affine& a) const {
    std::string text;
    for (const Affine::Term& term : a.terms) {
      const int64_t size = std::abs(term.coefficient);
      const char* sign = text.empty() ? (term.coefficient < 0 ? "-" : "")
                                      : (term.coefficient < 0 ? " - " : " + ");
      text += concat(sign, size == 1 ? "" : concat(size, " * "), variables_[term.var]);
    }
    if (text.empty()) return concat(a.constant);
    if (a.constant == 0) return text;
    return concat(text, a.constant < 0 ? " - " : " + ", std::abs(a.constant));
  }

  void list(const std::vector<Stmt>& statements) {
    for (const Stmt& s : statements) statement(s);
  }

  void nested(const std::vector<Stmt>& statements) {
    ++depth_;
    list(statements);
    --depth_;
  }

  void statement(const Stmt& s) {
    switch (s.kind) {
      case Stmt::Kind::kFor:
        if (s.parallel) return fail("a parallel loop inside of others");
        ranges_[s.var] = {0, s.count - 1};
        line("for (", index_type_, " ", variables_[s.var], " = 0; ", variables_[s.var], " < ",
             s.count, "; ++", variables_[s.var], ") {");
        nested(s.body);
        return line("}");
      case Stmt::Kind::kIf: {
        std::string condition;
        for (const Affine& a : s.conditions) {
          condition += concat(condition.empty() ? "" : " && ", text_of(a), " >= 0");
        }
        line("if (", condition.empty() ? "1" : condition, ") {");
        nested(s.body);
        if (!s.otherwise.empty()) {
          line("} else {");
          nested(s.otherwise);
        }
        return line("}");
      }
      case Stmt::Kind::kInt: return integer(s);
      case Stmt::Kind::kOp: return operation(s);
      case Stmt::Kind::kBlock: return fail("blocks are of other machines");
    }
  }

  void integer(const Stmt& s) {
    ranges_.define(s, items_);
    const std::string a = text_of(s.a);
    std::string value;
    switch (s.int_op) {
      case Stmt::IntOp::kAffine: value = a; break;
      case Stmt::IntOp::kDiv: value = rounded_down(s, "/"); break;
      case Stmt::IntOp::kMod: value = rounded_down(s, "%"); break;
      case Stmt::IntOp::kMin: case Stmt::IntOp::kMax:
        value = concat(s.int_op == Stmt::IntOp::kMin ? "min(" : "max(", "(", index_type_, ")(", a,
                       "), (", index_type_, ")(", text_of(s.b), "))");
        break;
      case Stmt::IntOp::kRegister: value = concat("(", index_type_, ")", names_[s.srcs[0]]); break;
      case Stmt::IntOp::kItem: value = "get_local_id(0)"; break;
    }
    line("const ", index_type_, " ", variables_[s.var], " = ", value, ";");
  }

  // C's division truncates.
  std::string rounded_down(const Stmt& s, const char* op) {
    const std::string a = text_of(s.a), d = concat(s.divisor);
    const int64_t raised = raised_by(ranges_.range(s.a), s.divisor);
    if (raised == 0) return concat("(", a, ") ", op, " ", d);
    const std::string moved = concat("(", a, " + ", raised, ") ", op, " ", d);
    return *op == '%' ? moved : concat(moved, " - ", raised / s.divisor);
  }

  // The sum comes first: no pointer on the way to the element may leave the buffer.
  std::string pointer(const Stmt& s) const {
    const bool sum = s.index.terms.size() + (s.index.constant != 0) > 1;
    return concat(buffers_[s.buffer], " + ", sum ? "(" : "", text_of(s.index), sum ? ")" : "");
  }

  void operation(const Stmt& s) {
    switch (s.op) {
      case Op::kFence: case Op::kCommit: return;
      case Op::kPrefetch: return prefetch(s);
      case Op::kBarrier: case Op::kLanded:
        return line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);");
      case Op::kStore: case Op::kLoad: return access(s);
      case Op::kTranspose: return transpose(s);
      case Op::kMatrixProduct: case Op::kMatrixParts: case Op::kWideProduct: case Op::kMultiplied:
        return fail("there are no products of matrices");
      case Op::kBoxCopy: return fail("nothing copies boxes");
      default: break;
    }
    const Register& dst = kernel_.registers[s.dst];
    const std::string value = s.op == Op::kIota
                                  ? cl_iota(dst.type, dst.lanes, text_of(s.index), s.stride)
                              : s.op == Op::kLaneMask
                                  ? cl_lane_mask(dst.lanes, text_of(s.index), s.stride)
                                  : cl_value(kernel_, s, names_, prelude_);
    if (value.empty()) return fail(concat("no words for ", word_of(s)));
    line(target_of(s.dst), " = ", value, ";");
  }

  void access(const Stmt& s) {
    const Type type = kernel_.buffers[s.buffer].type;
    ClAccess access{.space = space_of(s.buffer), .at = pointer(s)};
    access.alignment = byte_alignment(s.index, size_of(type));
    if (s.mask >= 0) access.mask = names_[s.mask];
    if (s.indices >= 0) access.indices = names_[s.indices];
    if (s.op == Op::kStore) {
      const int lanes = kernel_.registers[s.srcs[0]].lanes;
      access.value = names_[s.srcs[0]];
      access.streams = s.non_temporal && lanes * size_of(type) % target_.vector_bytes == 0;
      return line(cl_store(type, lanes, s.stride, access, prelude_));
    }
    const int lanes = kernel_.registers[s.dst].lanes;
    const Buffer& buffer = kernel_.buffers[s.buffer];
    if (buffer.scope == Scope::kArgument && !buffers_written_[s.buffer]) {
      access.elements = buffer.elements;
      access.all = buffers_[s.buffer];
      access.index = text_of(s.index);
    }
    line(target_of(s.dst), " = ", cl_load(type, lanes, s.stride, access, prelude_), ";");
  }

  // Of what the launch has besides. The address may lie outside, where no pointer may be.
  void prefetch(const Stmt& s) {
    if (!prelude_->processor() || !buffers_used_[s.buffer]) return;
    const int size = size_of(kernel_.buffers[s.buffer].type);
    const std::string bytes = concat(size, " * (", text_of(s.index), ")");
    line(cl_prefetch(concat("(uintptr_t)", buffers_[s.buffer], " + ", bytes), prelude_));
  }

  // Rows are zipped with those half the block away, log2 times: lanes taken one by one from as many
  // registers are slow code, and slow to compile.
  void transpose(const Stmt& s) {
    const size_t n = s.many.size() / 2;
    const Register& row = kernel_.registers[s.many[0]];
    const std::string type = cl_type(row.type, row.lanes);
    std::vector<std::string> rows(n), zipped(n);
    for (size_t i = 0; i < n; ++i) rows[i] = names_[s.many[i]];
    size_t rounds = 0;
    while ((size_t{1} << rounds) < n) ++rounds;
    const int block = blocks_++;
    for (size_t round = 1; round <= rounds; ++round) {
      for (size_t i = 0; i < n; ++i) {
        const bool low = i % 2 == 0;
        const std::string value = concat(cl_zip(row, low, prelude_), "(", rows[i / 2], ", ",
                                         rows[i / 2 + n / 2], ")");
        zipped[i] = concat("lw_z", block, "_", (round - 1) * n + i);
        if (round == rounds) {
          line(target_of(s.many[n + i]), " = ", value, ";");
        } else {
          line("const ", type, " ", zipped[i], " = ", value, ";");
        }
      }
      std::swap(rows, zipped);
    }
    if (rounds == 0) line(target_of(s.many[1]), " = ", rows[0], ";");
  }

  const Kernel& kernel_;
  const SimtTarget& target_;
  const std::vector<std::string>&buffers_, &variables_;
  const std::string& index_type_;
  Prelude* const prelude_;
  IntegerRanges ranges_;
  std::vector<std::string> names_;         // of registers
  std::string body_;
  int depth_ = 1, lists_ = 0, blocks_ = 0;  // blocks: transposed
  int64_t items_ = 1, sub_group_ = 1;
  std::vector<Use> uses_;
  std::vector<bool> declared_, buffers_used_, buffers_written_, variables_used_;
  absl::Status failure_;
};

}  // namespace

absl::StatusOr<std::string> opencl_function(const OpenClNames& names, const std::string& name,
                                            const std::vector<Stmt>& before,
                                            const std::vector<Stmt>& statements, bool prepack,
                                            Prelude* prelude, SimtProgram::Launch* launch) {
  return Function(names, prelude).print(name, before, statements, prepack, launch);
}

}  // namespace lw
