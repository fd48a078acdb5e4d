// Statements become instructions of the same order. Integer variables are words: what they count
// fits, since no buffer of a device has 2 GiB.
#include "src/build/simt/ptx/ptx_entry.h"

#include <algorithm>
#include <span>

#include "schedules/targets/matrix_shape.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/ptx_address.h"
#include "src/build/simt/ptx/ptx_buffers.h"
#include "src/build/simt/ptx/ptx_lanes.h"
#include "src/build/simt/ptx/ptx_matrix.h"
#include "src/build/simt/ptx/ptx_memory.h"
#include "src/build/simt/ptx/ptx_sets.h"
#include "src/build/simt/ptx/ptx_turns.h"
#include "src/build/simt/ptx/ptx_values.h"
#include "src/build/simt/ranges.h"
#include "src/kernel/groups.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

// One entry, statement by statement.
class EntryText {
 public:
  EntryText(const Kernel& kernel, const Target& target)
      : kernel_(kernel), target_(simt(target)), lanes_(kernel, &code_), addresses_(kernel, &code_),
        buffers_(kernel, &code_, &addresses_), sets_(&code_), ranges_(kernel),
        reads_(kernel.registers.size()), values_(kernel) {}

  absl::StatusOr<std::string> print(const std::string& name, const std::vector<Stmt>& before,
                                    const std::vector<Stmt>& statements,
                                    SimtProgram::Launch* launch) {
    const bool grid = statements.size() == 1 && is_parallel(statements[0]);
    launch->kernel = name;
    launch->groups = grid ? statements[0].count : 1;
    items_ = grid ? statements[0].items : 1;
    produced_ = grid && statements[0].producer;
    launch->items = items_ + (produced_ ? kMatrixItems : 0);
    if (launch->items > target_.group_items) {
      return absl::InvalidArgumentError(concat("a group of ", launch->items,
                                               " items: the device takes ", target_.group_items));
    }
    if (launch->groups > INT32_MAX) {
      return absl::InvalidArgumentError(concat(launch->groups, " groups: a launch has ", INT32_MAX,
                                               " at most"));
    }
    const std::vector<Stmt>& body = grid ? statements[0].body : statements;
    count_reads(body);
    std::string text = concat("\n.visible .entry ", name, "(");
    text += buffers_.parameters(body, grid ? &statements[0] : nullptr, launch);
    RETURN_IF_ERROR(buffers_.refused());
    begin_sets(body, buffers_.shares() ? statements[0].cluster : 1, launch);
    text += concat(")\n.maxntid ", launch->items, ", 1, 1\n.minnctapersm 1\n");
    if (buffers_.shares()) text += concat(".reqnctapercluster ", statements[0].cluster, ", 1, 1\n");
    text += "{\n";
    for (const Stmt& s : before) integer(s);
    if (grid) special(statements[0].var, "%ctaid.x", statements[0].count);
    if (produced_) by_roles(body);
    else list(body);
    if (buffers_.shares()) sets_.meet();   // nobody leaves whom others may yet copy for
    code_.line("ret");
    RETURN_IF_ERROR(failure_);
    return concat(text, code_.declarations(), buffers_.own_memory(), code_.leave(), "}\n");
  }

 private:
  void fail(std::string_view what) {
    if (failure_.ok()) failure_ = absl::InvalidArgumentError(concat("PTX: ", what));
  }

  // ---- memory -----------------------------------------------------------------------------------

  void count_reads(const std::vector<Stmt>& list) {
    for (const Stmt& s : list) {
      visit_read(s, [this](int reg) { ++reads_[reg]; });
      wide_ = wide_ || is_op(s, Op::kWideProduct);
      stores_ = stores_ || (is_op(s, Op::kStore) && is_shared(s.buffer));
      sends_ = sends_ || (is_op(s, Op::kStore) && s.on_its_way);
      count_reads(s.body);
      count_reads(s.otherwise);
    }
  }

  bool is_shared(int buffer) const { return kernel_.buffers[buffer].scope == Scope::kManaged; }

  void begin_sets(const std::vector<Stmt>& body, int64_t cluster, SimtProgram::Launch* launch) {
    boxes_ = sets_.find(body, produced_, [this](int buffer) {
      return kernel_.buffers[buffer].scope != Scope::kPrivate;
    });
    if (!boxes_) return;
    if (produced_ && items_ % kMatrixItems != 0) return fail("a producer beside part of a sub-group");
    if (!sets_.counted()) return fail("too many sets of copies on their way");
    const std::string shared = code_.word(), ring = code_.word();
    code_.line("mov.u32 ", shared, ", ", kPtxShared);
    code_.line("add.s32 ", ring, ", ", shared, ", ", launch->local_bytes);
    launch->local_bytes += aligned_bytes(sets_.bytes());
    if (launch->local_bytes > target_.local_bytes) fail("no memory is left for barriers");
    sets_.begin(ring, items_, cluster);
  }

  // What the producer does and what items do, one after the other.
  void by_roles(const std::vector<Stmt>& body) {
    const std::string produces = sets_.produces();
    const auto print = [&](PtxSets::Role role) {
      sets_.become(role);
      addresses_.enter();
      list(body);
      return addresses_.leave();
    };
    const std::string items = print(PtxSets::Role::kItems);
    either(produces, items, print(PtxSets::Role::kProducer));
  }

  // Whether what follows is what the producer does.
  bool produces() const { return sets_.role() == PtxSets::Role::kProducer; }

  // Of what items do it does what all do alike, as far as it bears on copies.
  bool skips(const Stmt& s) {
    if (s.kind == Stmt::Kind::kInt || s.kind == Stmt::Kind::kFor) values_.define(s);
    if (s.kind == Stmt::Kind::kInt) return values_.differ(variable(s.var));
    const Op parts[] = {Op::kBoxCopy, Op::kCommit, Op::kLanded, Op::kBarrier};
    return std::none_of(std::begin(parts), std::end(parts), [&](Op op) { return has_op(s, op); });
  }

  void copy_box(const Stmt& s) {
    if (sets_.role() == PtxSets::Role::kItems) return;
    std::vector<std::string> coordinates;
    for (const Clip& clip : s.block->clips) coordinates.push_back(word_value(clip.first));
    sets_.copy(buffers_.box(s), *s.block, std::move(coordinates));
  }

  void landed(const Stmt& s) {
    if (sends_) code_.line("cp.async.wait_group ", s.integer);
    if (!boxes_) return meet();
    show_stores();
    sets_.landed(s);
  }

  PtxAccess accessed(const Stmt& s) {
    const int64_t size = size_of(kernel_.buffers[s.buffer].type);
    PtxAccess a;
    a.space = buffers_.space_of(s.buffer, s.op == Op::kLoad);
    a.place = buffers_.place(s.buffer, s.index);
    a.alignment = std::min<int64_t>(byte_alignment(s.index, size), 16);
    a.stride = s.stride;
    if (s.mask >= 0) a.mask = lanes_.all(s.mask);
    if (s.indices >= 0) a.offsets = lanes_.all(s.indices);
    return a;
  }

  void access(const Stmt& s) {
    const bool loads = s.op == Op::kLoad;
    const int reg = loads ? s.dst : s.srcs[0];
    const Register& r = kernel_.registers[reg];
    if (r.type != kernel_.buffers[s.buffer].type) {
      return fail("a register of another type than its buffer");
    }
    const PtxAccess a = accessed(s);
    if (loads) ptx_load(code_, lanes_, reg, r, a);
    else ptx_store(code_, lanes_, reg, r, a);
  }

  // ---- integers ---------------------------------------------------------------------------------

  void special(int var, const char* name, int64_t count) {
    ranges_[var] = {0, count - 1};
    const std::string word = code_.word();
    code_.line("mov.u32 ", word, ", ", name);
    addresses_.define(var, word);
  }

  std::string word_op(const std::string& op, const std::string& a, int64_t b) {
    const std::string word = code_.word();
    code_.line(op, " ", word, ", ", a, ", ", b);
    return word;
  }

  // Words wrap: what ends between these is right, whatever its terms are.
  void expect_word(const Affine& a, int64_t more = 0) {
    const IntegerRanges::Bounds range = ranges_.range(a);
    const bool fits = std::min(range.lo, range.lo + more) >= INT32_MIN &&
                      std::max(range.hi, range.hi + more) <= INT32_MAX;
    if (!fits) fail("an index that 32 bits do not hold");
  }
  std::string word_value(const Affine& a, int64_t more = 0) {
    expect_word(a, more);
    return addresses_.value(a);
  }

  // Rounded down: of a dividend that is raised to be no less than 0.
  std::string quotient_of(const Stmt& s, const IntegerRanges::Bounds& dividend) {
    const bool quotient = s.int_op == Stmt::IntOp::kDiv;
    const int64_t by = raised_by(dividend, s.divisor);
    std::string result;
    if (dividend.hi + by <= UINT32_MAX) {
      Affine raised = s.a;
      raised.constant += by;
      const std::string word = addresses_.value(raised);
      result = quotient ? ptx_quotient(code_, word, dividend.hi + by, s.divisor)
                        : ptx_remainder(code_, word, dividend.hi + by, s.divisor);
    } else {
      const std::string wide = code_.wide(), divided = code_.wide();
      const PtxPlace sum = addresses_.place("0", true, s.a, 1);
      code_.line("add.s64 ", wide, ", ", sum.base, ", ", sum.bytes + by);
      code_.line(quotient ? "div.u64 " : "rem.u64 ", divided, ", ", wide, ", ", s.divisor);
      result = code_.word();
      code_.line("cvt.u32.u64 ", result, ", ", divided);
    }
    return quotient && by > 0 ? word_op("sub.s32", result, by / s.divisor) : result;
  }

  void integer(const Stmt& s) {
    const IntegerRanges::Bounds dividend = ranges_.range(s.a);
    ranges_.define(s, items_);
    expect_word(variable(s.var));
    switch (s.int_op) {
      case Stmt::IntOp::kAffine: return addresses_.define(s.var, addresses_.value(s.a));
      case Stmt::IntOp::kDiv: case Stmt::IntOp::kMod:
        return addresses_.define(s.var, quotient_of(s, dividend));
      case Stmt::IntOp::kMin: case Stmt::IntOp::kMax: {
        const std::string a = word_value(s.a), b = word_value(s.b), word = code_.word();
        code_.line(s.int_op == Stmt::IntOp::kMin ? "min.s32 " : "max.s32 ", word, ", ", a, ", ", b);
        return addresses_.define(s.var, word);
      }
      case Stmt::IntOp::kRegister: {
        const Type type = kernel_.registers[s.srcs[0]].type;
        // Registers may change: a variable does not.
        const std::string now = ptx_cast(code_, Type::kI32, type, lanes_.get(s.srcs[0], 0));
        const std::string word = code_.word();
        code_.line("mov.b32 ", word, ", ", now);
        return addresses_.define(s.var, word);
      }
      case Stmt::IntOp::kItem: return special(s.var, "%tid.x", items_);
    }
  }

  // ---- statements -------------------------------------------------------------------------------

  void list(const std::vector<Stmt>& statements) {
    PtxTurns turns(kernel_, &code_, &lanes_, statements);
    for (size_t i = 0; i < statements.size() && failure_.ok(); ++i) {
      const Stmt& s = statements[i];
      if (produces() && skips(s)) continue;
      turns.before(i);
      if (i + 1 < statements.size() && together(s, statements[i + 1])) ++i;
      else if (is_op(s, Op::kWideProduct)) i = wide_products(statements, i);
      else statement(s);
      turns.after(i);
    }
  }

  // Those that follow each other are a set. The last one's number.
  size_t wide_products(const std::vector<Stmt>& statements, size_t first) {
    code_.line("wgmma.fence.sync.aligned");
    size_t i = first;
    for (; i < statements.size() && is_op(statements[i], Op::kWideProduct); ++i) {
      std::vector<PtxPlace> factors;
      for (const View& view : factors_of(statements[i])) {
        factors.push_back(buffers_.linear_place(view.buffer, view.index));
      }
      const std::string refusal =
          ptx_wide_product(code_, lanes_, kernel_, statements[i], factors);
      if (!refusal.empty()) fail(refusal);
    }
    code_.line("wgmma.commit_group.sync.aligned");
    return i - 1;
  }

  // What items wrote to shared memory products read, and copies of boxes overwrite, by another way.
  void show_stores() {
    if (stores_ && (wide_ || boxes_) && !produces()) code_.line("fence.proxy.async");
  }
  // Where groups of a cluster copy for each other, all of these.
  void meet() {
    show_stores();
    if (boxes_) return sets_.meet();
    code_.line("bar.sync 0");
  }

  // A load and what it alone loads for, where one instruction is both.
  bool together(const Stmt& load, const Stmt& next) {
    if (load.kind != Stmt::Kind::kOp || load.op != Op::kLoad) return false;
    const Register& r = kernel_.registers[load.dst];
    const bool shared = kernel_.buffers[load.buffer].scope == Scope::kManaged;
    const int64_t size = size_of(r.type), bytes = r.lanes * size;
    const auto aligned = [&](const Affine& at) { return byte_alignment(at, size) >= bytes; };
    const bool whole = next.kind == Stmt::Kind::kOp && next.srcs[0] == load.dst &&
                       reads_[load.dst] == 1 && load.mask < 0 && load.indices < 0 &&
                       load.stride == 1 && aligned(load.index);
    if (!whole) return false;
    if (next.op == Op::kMatrixParts && shared) {
      ptx_matrix_parts(code_, lanes_, next, accessed(load).place);
      return true;
    }
    const bool sent = next.op == Op::kStore && next.on_its_way && aligned(next.index);
    const bool constant = buffers_.space_of(load.buffer, true) == kPtxConstantSpace;
    if (!sent || !constant || !ptx_copies(bytes)) return false;
    ptx_copy(code_, accessed(next).place, accessed(load).place, bytes);
    return true;
  }

  void statement(const Stmt& s) {
    switch (s.kind) {
      case Stmt::Kind::kFor: return loop(s);
      case Stmt::Kind::kIf: return branch(s);
      case Stmt::Kind::kInt: return integer(s);
      case Stmt::Kind::kOp: return operation(s);
      case Stmt::Kind::kBlock: return fail("blocks are of other machines");
    }
  }

  // What does not change in the body comes before the loop: so the body is printed first. ptxas is to
  // unroll no more than the schedule does: it takes whatever registers there are for that.
  void loop(const Stmt& s) {
    if (s.parallel) return fail("a parallel loop inside of others");
    ranges_[s.var] = {0, s.count - 1};
    const std::string counter = code_.word(), again = code_.label(), more = code_.flag();
    const int64_t each = ptx_at_once(kernel_, s);
    addresses_.enter();
    for (int64_t n = 0; n < each; ++n) {
      addresses_.define(s.var, n == 0 ? counter : word_op("add.s32", counter, n));
      list(s.body);
    }
    const std::string body = addresses_.leave();
    code_.line("mov.b32 ", counter, ", 0");
    code_.place(again);
    code_.line(".pragma \"nounroll\"");
    code_.append(body);
    code_.line("add.s32 ", counter, ", ", counter, ", ", each);
    code_.line("setp.lt.s32 ", more, ", ", counter, ", ", s.count);
    code_.line("@", more, " bra ", again);
  }

  void branch(const Stmt& s) {
    std::string all;
    for (const Affine& condition : s.conditions) {
      Affine terms = condition;
      terms.constant = 0;
      const std::string value = word_value(terms), flag = code_.flag();
      code_.line("setp.ge.s32 ", flag, ", ", value, ", ", -condition.constant);
      if (all.empty()) {
        all = flag;
        continue;
      }
      const std::string both = code_.flag();
      code_.line("and.pred ", both, ", ", all, ", ", flag);
      all = both;
    }
    const auto print = [&](const std::vector<Stmt>& side) {
      addresses_.enter();
      list(side);
      return addresses_.leave();
    };
    const std::string then = print(s.body), otherwise = print(s.otherwise);
    if (all.empty()) return code_.append(then);
    either(concat("!", all), then, otherwise);
  }

  // `then` where the flag is false, of which what follows "!" is the contrary; else `otherwise`.
  void either(const std::string& flag, const std::string& then, const std::string& otherwise) {
    const std::string other = code_.label(), end = otherwise.empty() ? other : code_.label();
    code_.line("@", flag, " bra ", other);
    code_.append(then);
    if (!otherwise.empty()) {
      code_.line("bra ", end);
      code_.place(other);
      code_.append(otherwise);
    }
    code_.place(end);
  }

  void operation(const Stmt& s) {
    switch (s.op) {
      case Op::kFence: case Op::kPrefetch: return;
      case Op::kBarrier: return meet();
      case Op::kCommit:
        if (sends_) code_.line("cp.async.commit_group");
        return boxes_ ? sets_.commit() : void();
      case Op::kLanded: return landed(s);
      case Op::kBoxCopy: return copy_box(s);
      case Op::kMultiplied: return code_.line("wgmma.wait_group.sync.aligned ", s.integer);
      case Op::kStore: case Op::kLoad: return access(s);
      case Op::kTranspose: return ptx_transpose(code_, lanes_, kernel_, s);
      case Op::kMatrixProduct: return ptx_matrix_product(code_, lanes_, kernel_, s);
      case Op::kMatrixParts: return fail("rows of matrices that are in no shared memory");
      default: break;
    }
    const int64_t past = int64_t{kernel_.registers[s.dst].lanes} * s.stride;
    const bool counts = s.op == Op::kIota || s.op == Op::kLaneMask;
    const std::string refusal =
        ptx_operation(code_, lanes_, kernel_, s, counts ? word_value(s.index, past) : "",
                      target_.sub_group);
    if (!refusal.empty()) fail(refusal);
  }

  const Kernel& kernel_;
  const SimtTarget& target_;
  PtxCode code_;
  PtxLanes lanes_;
  PtxAddresses addresses_;
  PtxBuffers buffers_;
  PtxSets sets_;
  IntegerRanges ranges_;
  bool wide_ = false, boxes_ = false;      // there are kWideProduct, kBoxCopy
  bool stores_ = false, sends_ = false;    // items store to the group's memory, on its way
  bool produced_ = false;                  // there is a producer
  std::vector<int> reads_;                 // of registers, in the text
  ItemValues values_;
  int64_t items_ = 1;
  absl::Status failure_;
};

}  // namespace

absl::StatusOr<std::string> ptx_entry(const Kernel& kernel, const Target& target,
                                      const std::string& name, const std::vector<Stmt>& before,
                                      const std::vector<Stmt>& statements,
                                      SimtProgram::Launch* launch) {
  return EntryText(kernel, target).print(name, before, statements, launch);
}

}  // namespace lw
