#include "src/export/transform.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "src/base/message.h"
#include "src/export/ahead.h"
#include "src/export/linalg.h"
#include "src/export/tiling.h"

namespace lw {
namespace {

constexpr char kAny[] = "!transform.any_op";
// Operations that the rows of a register tile become; more stay loops.
constexpr int64_t kMostPoints = 256;

// A reduction and the maps that finish its results where they are made, in order.
struct Chain {
  int host;                                // of operations
  std::vector<int> epilogues;
};

class ScriptPrinter {
 public:
  ScriptPrinter(const Nest& nest, const std::vector<Operation>& operations,
                const std::string& symbol)
      : nest_(nest), operations_(operations), symbol_(symbol) {}

  Script print() {
    std::vector<bool> done(operations_.size());
    for (size_t n = 0; n < operations_.size(); ++n) {
      const Stage& stage = stage_of(operations_[n]);
      judge(operations_[n], &script_.stages[stage.name]);
      for (int operand = 0; operand < static_cast<int>(operations_[n].operands.size()); ++operand)
        add_margin(operations_[n], operand);
    }
    for (int n = 0; n < static_cast<int>(operations_.size()); ++n) {
      if (done[n]) continue;
      const Chain chain = chain_from(n);
      for (int epilogue : chain.epilogues) done[epilogue] = true;
      add_chain(chain);
    }
    script_.text = sequences();
    return std::move(script_);
  }

  std::string print_prepack() {
    for (const Packing* packing : made_once(operations_)) add_copy(*packing);
    return sequences();
  }

 private:
  using Handles = std::vector<std::string>;

  // What was printed, and what unrolls its loops.
  std::string sequences() {
    const std::string sequence = "transform.named_sequence @";
    const std::string argument = concat("(%f: ", kAny, " {transform.readonly}) {\n");
    const std::string end = "  transform.yield\n}\n";
    std::string all = concat(sequence, symbol_, "_schedule", argument, text_, end);
    text_.clear();
    for (size_t n = 0; n < unrolls_.size(); ++n) add_unroll(n + 1, unrolls_[n]);
    return all + concat(sequence, symbol_, "_unroll", argument, text_, end);
  }

  const Stage& stage_of(const Operation& operation) const { return nest_.stages[operation.stage]; }

  std::string fresh() { return concat("%h", next_++); }
  void line(const std::string& operation) { text_ += concat("  ", operation, "\n"); }

  std::string match(std::string_view attribute, const std::string& name) {
    const std::string handle = fresh();
    line(concat(handle, " = transform.structured.match attributes{loopwright.", attribute, " = \"",
                name, "\"} in %f : (", kAny, ") -> ", kAny));
    return handle;
  }

  void mark(const std::string& loop, std::string_view attribute) {
    line(concat("transform.annotate ", loop, " \"loopwright.", attribute, "\" : ", kAny));
  }

  // Puts the operation into one loop for each of `run`, in that order: the loops.
  Handles tile(std::string& operation, size_t rank, const std::vector<TileLoop>& run) {
    std::vector<int64_t> sizes(rank);
    std::vector<int> order;
    for (const TileLoop& loop : run) {
      sizes[loop.axis] = loop.tile;
      order.push_back(loop.axis);
    }
    for (int axis = 0; axis < static_cast<int>(rank); ++axis) {
      if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
    }
    const std::string inside = fresh(), loops = fresh();
    std::string interchange;
    if (run.size() > 1) interchange = concat(" interchange = [", absl::StrJoin(order, ", "), "]");
    line(concat(inside, ", ", loops, ":", run.size(), " = transform.structured.tile_using_for ",
                operation, " tile_sizes [", absl::StrJoin(sizes, ", "), "]", interchange, " : (",
                kAny, ") -> (", absl::StrJoin(Handles(run.size() + 1, kAny), ", "), ")"));
    operation = inside;
    Handles handles;
    for (size_t n = 0; n < run.size(); ++n) handles.push_back(concat(loops, "#", n));
    return handles;
  }

  void fuse(std::string& producer, std::string& loop) {
    const std::string inside = fresh(), around = fresh();
    line(concat(inside, ", ", around, " = transform.structured.fuse_into_containing_op ", producer,
                " into ", loop, " : (", kAny, ", ", kAny, ") -> (", kAny, ", ", kAny, ")"));
    producer = inside;
    loop = around;
  }

  void mark_partial(const std::vector<TileLoop>& run, const Handles& loops) {
    for (size_t n = 0; n < run.size(); ++n) {
      if (run[n].partial) mark(loops[n], "peel");
    }
  }

  // What is left to one operation alone, down to single rows. `stage`: whose loops these are; null:
  // of what is but moved.
  void tile_inside(std::string operation, size_t rank, const Tiling& tiling,
                   const Operation* stage = nullptr) {
    int outside = 0;
    for (const std::vector<TileLoop>& run : tiling.shared) outside += static_cast<int>(run.size());
    for (const TileLoop& loop : tiling.own) {
      Handles loops = tile(operation, rank, {loop});
      if (stage != nullptr) place_copies(tiling, ++outside, loops.back());
      mark_partial({loop}, loops);
    }
    std::vector<Ahead> aheads;
    if (stage != nullptr) {
      aheads = fetched_ahead(nest_, *stage, tiling,
                             &script_.stages[stage_of(*stage).name].prefetches);
      for (const Ahead& ahead : aheads) {
        if (ahead.loops == 0) fetch_before(operation, *stage, ahead);
      }
    }
    if (tiling.points.empty()) return;
    const Handles loops = tile(operation, rank, tiling.points);
    for (const Ahead& ahead : aheads) {
      if (ahead.loops > 0) fetch_between(operation, loops, *stage, ahead);
    }
    const bool unrolls = stage == nullptr || !stage->gathers;
    for (size_t n = 0; n < loops.size() && unrolls && points_of(tiling) <= kMostPoints; ++n) {
      unrolls_.push_back(tiling.points[n].iterations);
      mark(loops[n], concat("unroll_", unrolls_.size()));
    }
    for (const std::string& loop : loops) mark(loop, "rows");
    mark_partial(tiling.points, loops);
  }

  // Calls what fetches ahead with a value, at a place ("before %operation").
  void call_ahead(const std::string& value, const std::string& place, const Operation& stage,
                  const Ahead& ahead) {
    const std::string function = concat(symbol_, "_ahead_", aheads_++);
    script_.functions += ahead_function(nest_, stage, ahead, function);
    line(concat(fresh(), " = transform.func.cast_and_call @", function, "(", value, ") ", place,
                " {transform.type_conversion.tensor.cast_shape_dynamic_dims} : (", kAny,
                ", !transform.any_value) -> ", kAny));
  }

  void fetch_before(const std::string& tile, const Operation& stage, const Ahead& ahead) {
    const std::string part = fresh();
    line(concat(part, " = transform.get_operand ", tile, "[", ahead.operand, "] : (", kAny,
                ") -> !transform.any_value"));
    call_ahead(part, concat("before ", tile), stage, ahead);
  }

  // Where a part of the operand begins, outside of the loops that do not move it.
  void fetch_between(const std::string& row, const Handles& loops, const Operation& stage,
                     const Ahead& ahead) {
    for (size_t n = loops.size(); n-- > static_cast<size_t>(ahead.loops);)
      line(concat("transform.apply_licm to ", loops[n], " : ", kAny));
    const std::string part = fresh(), value = fresh();
    line(concat(part, " = transform.get_producer_of_operand ", row, "[", ahead.operand, "] : (",
                kAny, ") -> ", kAny));
    line(concat(value, " = transform.get_result ", part, "[0] : (", kAny,
                ") -> !transform.any_value"));
    call_ahead(value, concat("after ", part), stage, ahead);
  }

  // Puts copies into a loop, the last of so many: those that stand in it, and, as the parts of
  // parts are parts, those that stand further in.
  void place_copies(const Tiling& tiling, int loops, std::string& loop) {
    for (const PlacedCopy& placed : tiling.copies) {
      if (placed.loops < loops) continue;
      std::string& copy = copies_[placed.copy];
      if (copy.empty()) copy = match("copy", nest_.stages[placed.copy].name);
      fuse(copy, loop);
      if (placed.loops == loops) tile_inside(copy, placed.box.size(), plain_tiling(placed.box));
    }
  }

  static int64_t points_of(const Tiling& tiling) {
    int64_t points = 1;
    for (const TileLoop& loop : tiling.points) {
      if (!loop.iterations.empty()) points *= loop.iterations.front();
    }
    return points;
  }

  void add_margin(const Operation& operation, int number) {
    const Operand& operand = operation.operands[number];
    if (!has_margin(operand)) return;
    const std::string name = margin_name(nest_, operation, number);
    const std::vector<Slab> margins = margin_slabs(operand);
    for (size_t n = 0; n < margins.size(); ++n) {
      tile_inside(match("margin", concat(name, ".", n)), operand.shape.size(),
                  plain_tiling(margins[n].shape));
    }
    tile_inside(match("inside", name), operand.shape.size(),
                plain_tiling(inside_slab(operand).shape));
  }

  // Copies that stand in no loop.
  void add_root_copies(const Operation& operation, const Tiling& tiling) {
    for (const Packing* packing : packings_read(operation)) {
      const auto is_it = [&](const PlacedCopy& placed) { return placed.copy == packing->copy; };
      if (!packing->once &&
          std::none_of(tiling.copies.begin(), tiling.copies.end(), is_it))
        add_copy(*packing);
    }
  }

  void add_copy(const Packing& packing) {
    tile_inside(match("copy", nest_.stages[packing.copy].name), packing.shape.size(),
                plain_tiling(packing.shape));
  }

  // Whether the tensor has that one reader, and no caller wants it.
  bool is_private(int tensor, int reader) const {
    if (nest_.program->tensors[tensor].role == Role::kOutput) return false;
    for (const Operation& operation : operations_) {
      int readings = 0;
      for (const Operand& operand : operation.operands) readings += operand.tensor == tensor;
      const bool reads = readings > 0;
      if (reads != (operation.stage == reader) || readings > 1) return false;
      if (operation.gathers && operation.stage != reader) {
        const std::vector<int> all = body_reads(nest_, operation.stage);
        if (std::find(all.begin(), all.end(), tensor) != all.end()) return false;
      }
    }
    return true;
  }

  // The maps that can be computed where their host's results are, one after the other.
  Chain chain_from(int n) {
    Chain chain{n, {}};
    int last = n;
    for (int stage : stage_of(operations_[n]).epilogue) {
      const auto is_it = [&](const Operation& operation) { return operation.stage == stage; };
      const auto found = std::find_if(operations_.begin(), operations_.end(), is_it);
      if (found == operations_.end()) break;
      if (!is_private(stage_of(operations_[last]).tensor, stage)) break;
      last = static_cast<int>(found - operations_.begin());
      chain.epilogues.push_back(last);
    }
    for (int stage : stage_of(operations_[n]).epilogue) {
      const auto is_it = [&](int epilogue) { return operations_[epilogue].stage == stage; };
      if (std::any_of(chain.epilogues.begin(), chain.epilogues.end(), is_it)) continue;
      script_.stages[nest_.stages[stage].name].place = {
          Grade::kApproximate, "it is computed on its own: what it finishes has other readers"};
    }
    return chain;
  }

  bool reduces(const Operation& operation) const {
    return nest_.program->tensors[stage_of(operation).tensor].reduce != Reduce::kNone;
  }

  void judge_chain(const Chain& chain, const Tiling& tiling) {
    const std::string& name = stage_of(operations_[chain.host]).name;
    if (points_of(tiling) > kMostPoints)
      script_.stages[name].tile = {Grade::kApproximate, "its vectors are too many: rows stay loops"};
    if (!tiling.interrupted) return;
    for (int epilogue : chain.epilogues) {
      script_.stages[stage_of(operations_[epilogue]).name].place = {
          Grade::kApproximate, "it is applied to all results that a loop around reductions makes, "
                               "in a pass of its own"};
    }
  }

  void add_chain(const Chain& chain) {
    const Operation& host = operations_[chain.host];
    const Stage& stage = stage_of(host);
    if (stage.place == Place::kEpilogue || stage.loops.empty()) {  // no loops of its own
      std::vector<int64_t> extents;
      for (const NestAxis& axis : host.axes) extents.push_back(axis.extent);
      add_root_copies(host, {});
      return tile_inside(match("stage", stage.name), extents.size(), plain_tiling(extents));
    }
    const Tiling tiling = tiling_of(nest_, host);
    judge_chain(chain, tiling);
    if (chain.epilogues.empty() && !host.copies_out) add_alone(host, tiling);
    else add_finished(chain, tiling);
  }

  // In nobody's loops but its own.
  void add_alone(const Operation& host, const Tiling& tiling) {
    const Stage& stage = stage_of(host);
    std::string root = match("stage", stage.name);
    int outside = 0;
    for (const std::vector<TileLoop>& run : tiling.shared) {
      Handles loops = tile(root, host.axes.size(), run);
      place_copies(tiling, outside += static_cast<int>(run.size()), loops.back());
      mark_partial(run, loops);
    }
    add_root_copies(host, tiling);
    tile_inside(root, host.axes.size(), tiling, &host);
    if (!reduces(host)) return;
    const auto tile_plainly = [&](std::string_view attribute, const std::vector<int64_t>& shape) {
      tile_inside(match(attribute, stage.name), shape.size(), plain_tiling(shape));
    };
    std::vector<int64_t> shape = host.shape;
    if (host.lanes >= 0) {
      tile_plainly("combine_init", shape);
      shape.push_back(host.axes[host.lanes].extent);
      tile_plainly("combine", shape);
    }
    tile_plainly("init", shape);
  }

  // What finishes the results last is tiled; what comes before is put into its loops, nearest first.
  void add_finished(const Chain& chain, const Tiling& tiling) {
    const Operation& host = operations_[chain.host];
    const Stage& stage = stage_of(host);
    const Tiling finish = finish_of(host, tiling);
    const size_t rank = host.result_axes.size();
    std::string summed = match("stage", stage.name), init, combined, combine_init;
    if (reduces(host)) init = match("init", stage.name);
    if (host.lanes >= 0) {
      combined = match("combine", stage.name);
      combine_init = match("combine_init", stage.name);
    }
    Handles finishers;                     // in order
    for (int epilogue : chain.epilogues)
      finishers.push_back(match("stage", stage_of(operations_[epilogue]).name));
    if (host.copies_out) finishers.push_back(match("store", stage.name));
    int outside = 0;
    for (const std::vector<TileLoop>& run : tiling.shared) {
      Handles loops = tile(finishers.back(), rank, run);
      for (size_t n = finishers.size() - 1; n-- > 0;) fuse(finishers[n], loops.back());
      for (std::string* before : {&combined, &combine_init, &summed, &init}) {
        if (!before->empty()) fuse(*before, loops.back());
      }
      place_copies(tiling, outside += static_cast<int>(run.size()), loops.back());
      mark_partial(run, loops);
    }
    add_root_copies(host, tiling);
    for (const std::string& finisher : finishers) tile_inside(finisher, rank, finish);
    tile_inside(summed, host.axes.size(), tiling, &host);
    if (host.lanes >= 0) {
      const Tiling lanes = lanes_of(host, tiling);
      tile_inside(combined, rank + 1, lanes);
      tile_inside(init, rank + 1, lanes);
      tile_inside(combine_init, rank, finish);
    } else if (!init.empty()) {
      tile_inside(init, rank, finish);
    }
  }

  // What does not depend on how it is tiled with others.
  void judge(const Operation& operation, StageFidelity* fidelity) const {
    const Stage& stage = stage_of(operation);
    if (has_tail(stage, Tail::kMask) || has_tail(stage, Tail::kShift))
      fidelity->tails = {Grade::kApproximate, "the last tiles are code of their own, as compose's"};
    const bool in_lanes = !stage.loops.empty() && stage.loops.back().kind == LoopKind::kVector;
    if (in_lanes && is_reduction(stage, stage.loops.back())) {
      fidelity->tile = {Grade::kApproximate,
                        operation.lanes >= 0 ? "sums in lanes are added up when all are made"
                                             : "each vector along the reduction is added up at once"};
    }
    if (operation.gathers)
      fidelity->tile = {Grade::kApproximate, "reads at computed indices are not vectorized"};
    const auto is_parallel = [](const Loop& loop) { return loop.kind == LoopKind::kParallel; };
    if (nest_.threads > 1 && std::any_of(stage.loops.begin(), stage.loops.end(), is_parallel))
      fidelity->parallel = {Grade::kLost, "its loops run on one thread"};
    const std::vector<const Packing*> read = packings_read(operation);
    for (const Packing& packing : operation.packings) {
      Fidelity& copy = fidelity->copies[nest_.program->tensors[packing.tensor].name];
      copy = packing.fidelity;
      if (is_made(packing) && std::find(read.begin(), read.end(), &packing) == read.end() &&
          copy.grade == Grade::kExact)
        copy = {Grade::kLost, "it is read at computed indices, where it lies"};
    }
    if (stage.place == Place::kAt)
      fidelity->place = {Grade::kLost, "it is computed whole, before its readers"};
  }

  // A factor unrolls the loops of as many iterations whole, and others not at all: these become
  // loops that never run, and copies of themselves. What never runs is removed each time.
  void add_unroll(size_t mark, const std::vector<int64_t>& factors) {
    for (int64_t factor : factors) {
      const std::string loops = fresh();
      line(concat(loops, " = transform.structured.match ops{[\"scf.for\"]} "
                  "attributes{loopwright.unroll_", mark, "} in %f : (", kAny, ") -> ", kAny));
      line(concat("transform.foreach ", loops, " : ", kAny, " {"));
      line(concat("^bb0(%loop: ", kAny, "):"));
      line(concat("  transform.loop.unroll %loop {factor = ", factor, "} : ", kAny));
      line("}");
      if (factors.size() == 1) continue;
      line(concat("transform.apply_patterns to %f {transform.apply_patterns.canonicalization} : ",
                  kAny));
    }
  }

  const Nest& nest_;
  const std::vector<Operation>& operations_;
  const std::string symbol_;
  Script script_;
  std::string text_;
  std::map<int, std::string> copies_;      // of Nest::stages, where they have come to: handles
  int next_ = 0, aheads_ = 0;
  std::vector<std::vector<int64_t>> unrolls_;  // of the loops marked 1, 2, ...
};

}  // namespace

std::string prepack_script(const Nest& nest, const std::vector<Operation>& operations,
                           const std::string& symbol) {
  return ScriptPrinter(nest, operations, symbol).print_prepack();
}

Script transform_script(const Nest& nest, const std::vector<Operation>& operations,
                        const std::string& symbol) {
  return ScriptPrinter(nest, operations, symbol).print();
}

}  // namespace lw
