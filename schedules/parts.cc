#include "schedules/parts.h"

#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

// The stage at the root in which this one is computed; itself, where it stands there; -1: inlined.
int root_of(const Nest& nest, int stage) {
  for (;;) {
    const Stage& s = nest.stages[stage];
    switch (s.place) {
      case Place::kRoot: return stage;
      case Place::kAt:
      case Place::kEpilogue: stage = s.host; break;
      case Place::kInlined:
      case Place::kPrepack: return -1;
    }
  }
}

// Adds what these tensors read and is inlined.
void add_inlined(const Program& whole, const std::set<int>& inlined, std::set<int>* members) {
  std::vector<int> left(members->begin(), members->end());
  while (!left.empty()) {
    const int tensor = left.back();
    left.pop_back();
    for (const int read : reads_of(whole.tensors[tensor])) {
      if (inlined.contains(read) && members->insert(read).second) left.push_back(read);
    }
  }
}

// "Y", "Y.rf": of Y.
bool is_or_is_partial(const std::string& stage, const std::string& tensor) {
  return stage == tensor || stage == concat(tensor, ".rf");
}

// "Y.pre", "Y.pre2": what a map of the whole has computed before it. Its own part has that too.
bool is_precomputed(const Program& whole, const std::string& stage) {
  return std::any_of(whole.tensors.begin(), whole.tensors.end(), [&](const Tensor& t) {
    return stage.starts_with(concat(t.name, ".pre"));
  });
}

std::string tensor_name(size_t i) { return concat("t", i); }
std::string axis_name(size_t tensor, size_t i) { return concat("x", tensor, "y", i); }

Part make_part(const Program& whole, const std::set<int>& members) {
  std::set<int> tensors = members;
  for (const int m : members) {
    for (const int read : reads_of(whole.tensors[m])) tensors.insert(read);
  }
  // Inputs come first, as everywhere.
  std::vector<int> order;
  for (const int t : tensors) if (!members.contains(t)) order.push_back(t);
  for (const int t : members) order.push_back(t);
  std::vector<int> position(whole.tensors.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);

  const auto is_read_outside = [&](int tensor) {
    for (size_t t = 0; t < whole.tensors.size(); ++t) {
      if (members.contains(static_cast<int>(t)) || whole.tensors[t].body == nullptr) continue;
      const std::vector<int> reads = reads_of(whole.tensors[t]);
      if (std::find(reads.begin(), reads.end(), tensor) != reads.end()) return true;
    }
    return whole.tensors[tensor].role == Role::kOutput;
  };
  Part part;
  part.program.name = "part";
  for (size_t i = 0; i < order.size(); ++i) {
    Tensor tensor = whole.tensors[order[i]];
    part.names[tensor_name(i)] = tensor.name;
    tensor.name = tensor_name(i);
    if (!members.contains(order[i])) {
      if (tensor.role != Role::kInput) tensor.is_const = false;
      tensor.role = Role::kInput;
      tensor.axes.clear();
      tensor.reduce_axes.clear();
      tensor.reduce = Reduce::kNone;
      tensor.body = nullptr;
    } else {
      tensor.role = is_read_outside(order[i]) ? Role::kOutput : Role::kTemp;
      tensor.body = renumber_reads(tensor.body, position);
      size_t number = 0;
      for (std::vector<Axis>* axes : {&tensor.axes, &tensor.reduce_axes}) {
        for (Axis& axis : *axes) {
          const std::string name = axis_name(i, number++);
          part.names[name] = axis.name;
          axis.name = name;
        }
      }
    }
    part.program.tensors.push_back(std::move(tensor));
  }
  return part;
}

// "x3y0.1*x3y1", "t2.copy": each name up to its first dot.
std::string in_whole(const Part& part, const std::string& name) {
  std::string result;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('*', begin), name.size());
    const std::string piece = name.substr(begin, end - begin);
    const size_t dot = std::min(piece.find('.'), piece.size());
    const auto known = part.names.find(piece.substr(0, dot));
    if (!result.empty()) result += '*';
    result += known == part.names.end() ? piece : concat(known->second, piece.substr(dot));
    begin = end + 1;
  }
  return result;
}

bool is_hint(const Step& step) {
  constexpr std::string_view kHints[] = {"non_temporal", "prefetch", "slide"};
  return std::find(std::begin(kHints), std::end(kHints), step.kind->name) != std::end(kHints);
}

}  // namespace

std::vector<Part> parts_of(const Program& whole, const Nest& scheduled) {
  std::map<int, std::set<int>> members;    // by stage at the root
  std::set<int> inlined;
  std::map<int, int> root_of_partial;      // the root that has what a partial result's stage at the
                                           // root is for
  for (int s = static_cast<int>(scheduled.stages.size()) - 1; s >= 0; --s) {
    const Stage& stage = scheduled.stages[s];
    if (stage.copy_of >= 0) continue;
    const std::string& name = scheduled.program->tensors[stage.tensor].name;
    if (is_precomputed(whole, name)) continue;
    const auto defined = std::find_if(whole.tensors.begin(), whole.tensors.end(),
                                      [&](const Tensor& t) { return is_or_is_partial(name, t.name); });
    if (defined == whole.tensors.end()) return {};
    const int tensor = static_cast<int>(defined - whole.tensors.begin());
    int root = root_of(scheduled, s);
    if (const auto it = root_of_partial.find(root); it != root_of_partial.end()) root = it->second;
    if (name != defined->name) {
      for (const auto& [other, tensors] : members) {
        if (tensors.contains(tensor) && root == s) root_of_partial[s] = other;
      }
    } else if (root >= 0) {
      members[root].insert(tensor);
    } else {
      inlined.insert(tensor);
    }
  }
  std::vector<Part> parts;
  for (auto& [root, tensors] : members) {
    add_inlined(whole, inlined, &tensors);
    parts.push_back(make_part(whole, tensors));
  }
  return parts;
}

absl::StatusOr<Trace> join_parts(const Nest& start, const std::vector<Part>& parts,
                                 const std::vector<Trace>& traces) {
  CHECK(parts.size() == traces.size());
  Trace joined;
  Nest nest = start;
  for (size_t p = 0; p < parts.size(); ++p) {
    for (Step step : traces[p]) {
      for (std::string& name : step.names) name = in_whole(parts[p], name);
      Nest next = nest;
      const absl::Status applied = apply(next, step);
      if (!applied.ok()) {
        if (is_hint(step)) continue;
        return applied;
      }
      nest = std::move(next);
      joined.push_back(std::move(step));
    }
  }
  return joined;
}

Sketch sketch_of(const Nest& start, const Trace& trace) {
  Sketch sketch{"a schedule that is known", trace, {}};
  Nest nest = start;
  for (const Step& step : trace) {
    const bool chooses = step.kind->domain != nullptr && step.kind->domain(nest, step).size() > 1;
    sketch.open.push_back(chooses);
    CHECK(apply(nest, step).ok());
  }
  return sketch;
}

}  // namespace lw
