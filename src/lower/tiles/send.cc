#include "src/lower/tiles/send.h"

#include <algorithm>
#include <utility>

#include "src/kernel/ops.h"
#include "src/lower/statements.h"

namespace lw::lowering {
namespace {

bool is_whole(const Stmt& s, int lanes) {
  return s.mask < 0 && s.indices < 0 && (s.stride == 1 || lanes == 1);
}

bool may_go(const Kernel& kernel, const Stmt& load, const Stmt& store) {
  const Buffer &from = kernel.buffers[load.buffer], &to = kernel.buffers[store.buffer];
  const int lanes = kernel.registers[load.dst].lanes;
  return is_constant(from) && to.scope == Scope::kManaged && from.type == to.type &&
         is_whole(load, lanes) && is_whole(store, lanes);
}

bool reads(const Stmt& s, int reg) {
  bool found = false;
  visit_read(s, [&](int r) { found = found || r == reg; });
  return found ||
         std::any_of(s.body.begin(), s.body.end(), [&](const Stmt& b) { return reads(b, reg); }) ||
         std::any_of(s.otherwise.begin(), s.otherwise.end(),
                     [&](const Stmt& b) { return reads(b, reg); });
}

}  // namespace

void send(const Kernel& kernel, std::vector<Stmt>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    send(kernel, list[i].body);
    send(kernel, list[i].otherwise);
    if (!is_op(list[i], Op::kStore)) continue;
    const int reg = list[i].srcs[0];
    const auto loads = [&](const Stmt& s) { return is_op(s, Op::kLoad) && s.dst == reg; };
    const auto store = list.begin() + static_cast<int64_t>(i);
    const auto load = std::find_if(list.begin(), store, loads);  // registers are written once here
    if (load == store || !may_go(kernel, *load, *store)) continue;
    const auto users = std::count_if(list.begin(), list.end(),
                                     [&](const Stmt& s) { return reads(s, reg); });
    if (users != 1) continue;
    store->on_its_way = true;
    std::rotate(load, load + 1, store);
  }
}

}  // namespace lw::lowering
