#include "src/build/emulator/emulate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/base/message.h"
#include "src/build/emulator/units.h"
#include "src/kernel/blocks.h"
#include "src/kernel/groups.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

// An access, as what it touched remembers it. Phases count up from 1 through the whole run: a new
// one begins with each group, with each barrier and where a loop ends.
struct Touch {
  uint32_t phase = 0;                      // 0: none
  int32_t group = -1, item = -1;           // -1: outside of parallel loops
  uint32_t stmt = 0;                       // its number
};

// Of an element: who wrote it last, and of those who read it since a loop began, enough that any
// write which meets some read meets one of these.
struct Cell {
  Touch write, read, beside, before;       // beside: another item's; before: another group's
  int32_t on_their_way = 0;                // stores
  int32_t being_read = 0;                  // by products on their way
};

// Memory that buffers share, in units as small as the smallest element: cells of eight units that were
// touched together so far, or, once one of them was touched alone, of each.
class Region {
 public:
  static constexpr int64_t kEight = 8;

  // visit(cell, unit) for what units [begin, end) have, as long as it is true.
  bool each_cell(int64_t begin, int64_t end, const auto& visit) {
    for (int64_t unit = begin; unit < end;) {
      Page& page = page_of(unit);
      const int64_t eight = unit % kUnits / kEight;
      const bool whole = unit % kEight == 0 && end - unit >= kEight;
      if (whole && page.apart[eight] == nullptr) {
        if (!visit(page.together[eight], unit)) return false;
        unit += kEight;
        continue;
      }
      if (page.apart[eight] == nullptr) {
        page.apart[eight] = std::make_unique<std::array<Cell, kEight>>();
        page.apart[eight]->fill(page.together[eight]);
      }
      if (!visit((*page.apart[eight])[unit % kEight], unit)) return false;
      ++unit;
    }
    return true;
  }

 private:
  static constexpr int64_t kUnits = 1024;  // of a page: of large buffers few are used

  struct Page {
    std::array<Cell, kUnits / kEight> together;
    std::array<std::unique_ptr<std::array<Cell, kEight>>, kUnits / kEight> apart;
  };

  Page& page_of(int64_t unit) {
    const size_t page = static_cast<size_t>(unit / kUnits);
    if (pages_.size() <= page) pages_.resize(page + 1);
    if (pages_[page] == nullptr) pages_[page] = std::make_unique<Page>();
    return *pages_[page];
  }

  std::vector<std::unique_ptr<Page>> pages_;
};

class RaceDetector : public ExecutionWatch {
 public:
  RaceDetector(const Kernel& kernel, int64_t most_accesses)
      : kernel_(kernel), units_(kernel), regions_(units_.memories()),
        most_accesses_(most_accesses) {}

  void begin(const std::vector<Stmt>& list, const char* name, bool prepack) {
    prepack_ = prepack;
    number(list, name);
  }

  const absl::Status& status() const { return status_; }

  bool stopped() const override { return !status_.ok(); }

  bool access(const Access& access) override {
    if (stopped() || !counted(access)) return false;
    const Buffer& b = kernel_.buffers[access.buffer];
    if (&access.stmt != latest_) {
      latest_ = &access.stmt;
      latest_number_ = numbers_.at(latest_);
    }
    now_.stmt = latest_number_;
    if (access.element < 0 || access.element + access.count > b.elements) {
      const bool begins = access.element < 0 || access.element >= b.elements;
      fail(concat(who(now_), " reaches element ", begins ? access.element : b.elements, " of ",
                  b.name, ", which has ", b.elements));
      return false;
    }
    const bool read_only = b.scope == Scope::kArgument ? !b.written || prepack_
                           : b.scope == Scope::kPacked && !prepack_;
    if (read_only) return true;
    const MemoryUnits::Range at = units_.of(access.buffer, access.element, access.count);
    if (b.scope == Scope::kPrivate) return own(b, access, at.begin, at.end);
    return regions_[at.memory].each_cell(at.begin, at.end, [&](Cell& cell, int64_t unit) {
      return touch(cell, b, access, access.element + ((unit - at.begin) >> at.shift));
    });
  }

  void begin_loop(const Stmt&) override { loop_began_ = ++now_.phase; }
  void end_loop() override {
    now_ = {now_.phase + 1};
    loop_began_ = group_began_ = now_.phase;  // managed and private memories were others' meanwhile
  }
  void begin_group(int64_t group) override {
    now_.group = static_cast<int32_t>(group);
    group_began_ = ++now_.phase;
  }
  void begin_item(int64_t item) override { now_.item = static_cast<int32_t>(item); }
  void barrier() override { ++now_.phase; }
  void never_landed(const Stmt& store) override {
    now_.stmt = numbers_.at(&store);
    fail(concat("what ", paths_[now_.stmt], " '", text_of(store), "' ",
                store.op == Op::kWideProduct ? "multiplies" : "stores", " is on its way where group ",
                now_.group, " ends"));
  }
  void diverged(const Stmt& branch, int64_t one, int64_t other) override {
    now_.stmt = numbers_.at(&branch);
    fail(concat("items ", one, " and ", other, " of group ", now_.group, " part at ",
                paths_[now_.stmt], ", around ",
                has_op(branch, Op::kBarrier) || has_op(branch, Op::kLanded)
                    ? "a barrier" : "an exchange of registers"));
  }

 private:
  bool counted(const Access& access) {
    accesses_ += (access.count + Region::kEight - 1) / Region::kEight;
    if (most_accesses_ == 0 || accesses_ <= most_accesses_) return true;
    status_ = absl::ResourceExhaustedError(
        concat("kernel ", kernel_.name, ": more than ", most_accesses_, " accesses"));
    return false;
  }

  void number(const std::vector<Stmt>& list, const std::string& path) {
    for (size_t i = 0; i < list.size(); ++i) {
      const Stmt& s = list[i];
      std::string own = concat(path, "[", i, "]");
      const bool branch = s.kind == Stmt::Kind::kIf;
      if (s.kind == Stmt::Kind::kFor) own += s.parallel ? ".parallel" : ".for";
      numbers_[&s] = static_cast<uint32_t>(paths_.size());
      paths_.push_back(own);
      stmts_.push_back(&s);
      number(s.body, branch ? own + ".then" : own);
      number(s.otherwise, own + ".else");
    }
  }

  // A statement as the kernel's text has it.
  std::string text_of(const Stmt& s) const {
    Kernel alone = kernel_;
    alone.prepack.clear();
    alone.body = {s};
    const std::string text = print(alone), start = "body {\n  ";
    const size_t begin = text.find(start) + start.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  std::string who(const Touch& t) const {
    const std::string at = concat(paths_[t.stmt], " '", text_of(*stmts_[t.stmt]), "'");
    if (t.item < 0) return at;
    return concat("item ", t.item, " of group ", t.group, " at ", at);
  }

  void fail(const std::string& what) {
    if (status_.ok()) status_ = absl::InternalError("kernel " + kernel_.name + ": " + what);
  }

  // Whether nothing orders the two.
  bool meets(const Touch& before) const {
    if (before.phase < loop_began_ || before.item < 0 || now_.item < 0) return false;
    if (before.group != now_.group) return true;
    return before.phase == now_.phase && before.item != now_.item;
  }

  bool race(const Buffer& b, const Access& access, int64_t element, const Touch& before,
            bool wrote) {
    const bool groups = before.group != now_.group;
    fail(concat("race for ", b.name, "[", element, "]: ", who(now_),
                access.write ? " writes" : " reads", " what ", who(before),
                wrote ? " writes" : " reads", groups ? "; groups come in any order"
                                                     : "; no barrier is between"));
    return false;
  }

  bool unwritten(const Buffer& b, int64_t element) {
    fail(concat(who(now_), " reads ", b.name, "[", element, "], which was never written"));
    return false;
  }

  bool too_early(const Buffer& b, const Access& access, int64_t element, const Touch& begun) {
    const bool read = stmts_[begun.stmt]->op == Op::kWideProduct;
    fail(concat(who(now_), access.write ? " writes " : " reads ", b.name, "[", element,
                read ? "] while a product reads it, of " : "] while it is on its way, from ",
                who(begun)));
    return false;
  }

  bool touch(Cell& cell, const Buffer& b, const Access& access, int64_t element) {
    const bool managed = b.scope == Scope::kManaged;
    // What earlier groups did to a group's memory they did to another.
    if (managed && cell.write.phase < group_began_) cell.write = {}, cell.on_their_way = 0;
    if (managed && cell.read.phase < group_began_) {
      cell.read = cell.beside = cell.before = {};
      cell.being_read = 0;
    }
    if (!access.write && b.scope != Scope::kArgument && cell.write.phase == 0) {
      return unwritten(b, element);
    }
    if (access.write && cell.being_read > 0) return too_early(b, access, element, cell.read);
    if (access.way != Way::kNone) {
      (access.write ? cell.on_their_way : cell.being_read) += access.way == Way::kBegins ? 1 : -1;
    }
    const bool lands = access.write && access.way != Way::kNone;
    if (!lands && cell.on_their_way > 0) return too_early(b, access, element, cell.write);
    // Vectors at a row's end overlap those before them: nobody sees which of two groups that write
    // the same came first.
    const bool same = access.write && !access.changes && cell.write.group != now_.group;
    if (!same && meets(cell.write)) return race(b, access, element, cell.write, true);
    if (access.write) {
      for (const Touch& read : {cell.read, cell.beside, cell.before}) {
        if (meets(read)) return race(b, access, element, read, false);
      }
      cell.write = now_;
      return true;
    }
    if (meets(cell.read)) {
      (cell.read.group != now_.group ? cell.before : cell.beside) = cell.read;
    }
    cell.read = now_;
    return true;
  }

  // Of private memory nobody else knows, only whether it was written.
  bool own(const Buffer& b, const Access& access, int64_t begin, int64_t end) {
    const size_t item = static_cast<size_t>(now_.item + 1);
    if (written_.size() <= item) written_.resize(item + 1);
    std::vector<uint32_t>& written = written_[item];
    if (static_cast<int64_t>(written.size()) < end) written.resize(end);
    for (int64_t i = begin; i < end; ++i) {
      if (access.write) written[i] = now_.phase;
      else if (written[i] < group_began_ || written[i] == 0) return unwritten(b, access.element);
    }
    return true;
  }

  const Kernel& kernel_;
  bool prepack_ = false;
  absl::Status status_;
  const MemoryUnits units_;
  std::vector<Region> regions_;                 // by memory
  const int64_t most_accesses_;
  int64_t accesses_ = 0;
  std::vector<std::vector<uint32_t>> written_;  // by item + 1, in units: in which phase
  Touch now_ = {1};
  uint32_t loop_began_ = 1, group_began_ = 1;
  absl::flat_hash_map<const Stmt*, uint32_t> numbers_;
  const Stmt* latest_ = nullptr;                // whose access came last, and its number
  uint32_t latest_number_ = 0;
  std::vector<const Stmt*> stmts_;              // by number
  std::vector<std::string> paths_;
};

// Bytes that begin at a multiple of 64.
class AlignedMemory {
 public:
  explicit AlignedMemory(int64_t bytes) : bytes_(bytes + kWorkspaceAlignment, kUnwritten) {}
  void* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (-address & (kWorkspaceAlignment - 1));
  }

 private:
  std::vector<std::byte> bytes_;
};

bool has_blocks_in(const std::vector<Stmt>& list) {
  return std::any_of(list.begin(), list.end(), [](const Stmt& s) {
    return s.kind == Stmt::Kind::kBlock || has_blocks_in(s.body) || has_blocks_in(s.otherwise);
  });
}

}  // namespace

absl::Status emulate(const Kernel& kernel, void* const* arguments, const EmulateOptions& options) {
  if (has_blocks_in(kernel.prepack) || has_blocks_in(kernel.body)) {
    return absl::InvalidArgumentError("kernel " + kernel.name + ": blocks have no items");
  }
  AlignedMemory workspace(aligned_bytes(kernel.workspace_bytes) +
                          aligned_bytes(kernel.private_bytes));
  AlignedMemory packed(kernel.packed_bytes);
  const lw_context context = {nullptr, nullptr, 1, workspace.data(), packed.data()};
  for (const bool prepack : {true, false}) {
    const std::vector<Stmt>& list = prepack ? kernel.prepack : kernel.body;
    RaceDetector detector(kernel, options.most_accesses);
    detector.begin(list, prepack ? "prepack" : "body", prepack);
    absl::flat_hash_map<const Stmt*, std::vector<int64_t>> groups;
    for (size_t i = 0; !prepack && i < options.groups.size(); ++i) {
      if (is_parallel(list[i])) groups[&list[i]] = options.groups[i];
    }
    execute(kernel, list, &context, arguments, {options.order, &detector, &groups});
    if (!detector.status().ok()) return detector.status();
  }
  return absl::OkStatus();
}

}  // namespace lw
