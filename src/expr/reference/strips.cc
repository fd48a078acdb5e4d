// The loops of the engine: each instruction over one strip, and the accumulation of results.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "src/base/message.h"
#include "src/expr/reference/engine.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/reference/rounding.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

template <class T, class R, class F>
void map(int n, const T* a, const T* b, R* out, const F& f) {
  for (int i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

// The loop for `op`, known at compile time inside it.
template <class T, class R, class F>
void dispatch(ExprOp op, int n, const T* a, const T* b, R* out, const F& f) {
  auto loop = [&](auto constant) {
    map(n, a, b, out, [&](T x, T y) { return f(decltype(constant)::value, x, y); });
  };
#define LW_CASE(name) \
  case ExprOp::name: return loop(std::integral_constant<ExprOp, ExprOp::name>())
  switch (op) {
    LW_CASE(kAdd); LW_CASE(kSub); LW_CASE(kMul); LW_CASE(kDiv); LW_CASE(kMod); LW_CASE(kMin);
    LW_CASE(kMax); LW_CASE(kPow); LW_CASE(kAnd); LW_CASE(kOr); LW_CASE(kEq); LW_CASE(kNe);
    LW_CASE(kLt); LW_CASE(kLe); LW_CASE(kGt); LW_CASE(kGe);
    default: return;
  }
#undef LW_CASE
}

void wrap_strip(Type type, int n, const int64_t* a, int64_t* out) {
  if (type == Type::kBool) {
    for (int i = 0; i < n; ++i) out[i] = a[i] != 0;
    return;
  }
  in_memory(type, [&](auto zero) {
    for (int i = 0; i < n; ++i) out[i] = static_cast<int64_t>(static_cast<decltype(zero)>(a[i]));
  });
}

// In four chains: an addition's latency would be the whole cost.
double sum(const double* values, int n) {
  double sums[4] = {};
  int i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int j = 0; j < 4; ++j) sums[j] += values[i + j];
  }
  for (; i < n; ++i) sums[0] += values[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// What is beyond the range of the type that kernels compute in is infinite there.
void keep_in_range(Type type, double* values, int n) {
  if (type == Type::kF64) return;
  const double beyond = arithmetic_of(type).beyond;
  for (int i = 0; i < n; ++i) {
    values[i] = std::fabs(values[i]) < beyond ? values[i] : values[i] * INFINITY;
  }
}

}  // namespace

void Engine::run_strip(int n) {
  for (const Step& step : steps_) {
    run_step(step, n);
    if (step.op == ExprOp::kRead) continue;
    if (tracks_errors_) {
      run_errors(step, n);
    } else if (is_float(step.type)) {
      keep_in_range(step.type, floats(step.dst), n);
    }
  }
}

void Engine::run_step(const Step& step, int n) {
  int64_t* out = ints(step.dst);
  switch (step.op) {
    case ExprOp::kRead: return run_load(step, n);
    case ExprOp::kCast: return run_cast(step, n);
    case ExprOp::kSelect: return run_select(step, n);
    case ExprOp::kAxis:
      std::fill_n(out, n, step.offset);
      for (const auto& [slot, factor] : step.terms) {
        const int64_t* term = ints(slot);
        for (int i = 0; i < n; ++i) out[i] = add_wrapping(out[i], mul_wrapping(term[i], factor));
      }
      return;
    default: break;
  }
  if (is_float(step.from)) {
    const double *a = floats(step.a), *b = step.b >= 0 ? floats(step.b) : nullptr;
    if (is_comparison(step.op)) {
      dispatch(step.op, n, a, b, out, [](ExprOp op, double x, double y) -> int64_t {
        return compare(op, x, y);
      });
    } else if (b) {
      dispatch(step.op, n, a, b, floats(step.dst),
               [](ExprOp op, double x, double y) { return apply_float(op, x, y); });
    } else {
      double* result = floats(step.dst);
      double (*const value)(double) = row_of(step.op).value;
      for (int i = 0; i < n; ++i) result[i] = value(a[i]);
    }
    return;
  }
  const int64_t* a = ints(step.a);
  // Wrapping last keeps the loop for each operation free of the type.
  if (step.b < 0) {
    for (int i = 0; i < n; ++i) out[i] = apply_int(step.op, Type::kI64, a[i]);
  } else {
    dispatch(step.op, n, a, ints(step.b), out, [](ExprOp op, int64_t x, int64_t y) {
      return apply_int(op, Type::kI64, x, y);
    });
  }
  if (step.type != Type::kI64 && step.type != Type::kBool) wrap_strip(step.type, n, out, out);
}

void Engine::run_cast(const Step& step, int n) {
  if (is_float(step.from)) {
    const double* a = floats(step.a);
    if (is_float(step.type)) {
      for (int i = 0; i < n; ++i) floats(step.dst)[i] = round_to(step.type, a[i]);
    } else {
      for (int i = 0; i < n; ++i) ints(step.dst)[i] = float_to_int(step.type, a[i]);
    }
    return;
  }
  const int64_t* a = ints(step.a);
  if (is_float(step.type)) {
    double* out = floats(step.dst);
    for (int i = 0; i < n; ++i) {
      // Straight from the integer: i64 to f32 through f64 would round twice.
      out[i] = step.type == Type::kF32 ? static_cast<float>(a[i])
                                       : round_to(step.type, static_cast<double>(a[i]));
    }
  } else {
    wrap_strip(step.type, n, a, ints(step.dst));
  }
}

void Engine::run_select(const Step& step, int n) {
  const int64_t* condition = ints(step.a);
  auto choose = [&](const auto* a, const auto* b, auto* out) {
    for (int i = 0; i < n; ++i) out[i] = condition[i] ? a[i] : b[i];
  };
  if (is_float(step.type)) {
    choose(floats(step.b), floats(step.c), floats(step.dst));
  } else {
    choose(ints(step.b), ints(step.c), ints(step.dst));
  }
}

// The row-major address of a checked read in one lane; false: pad's value, or not evaluated.
bool Engine::resolve(const Load& load, int lane, bool active, int64_t* address) {
  *address = 0;
  if (!active) return false;
  for (size_t d = 0; d < load.shape.size(); ++d) {
    int64_t index = ints(load.indices[d])[lane];
    if (index < 0 || index >= load.shape[d]) {
      if (load.fill >= 0) return false;
      if (error_.empty()) {
        error_ = concat("index ", index, " of dimension ", d + 1, " of ",
                        program_.tensors[static_cast<size_t>(load.tensor)].name,
                        " is out of range [0, ", load.shape[d], ") in ", tensor_.name);
      }
      index = std::clamp<int64_t>(index, 0, load.shape[d] - 1);
    }
    *address = *address * load.shape[d] + index;
  }
  return true;
}

void Engine::run_load(const Step& step, int n) {
  const Load& load = loads_[static_cast<size_t>(step.load)];
  const Source& source = sources_[static_cast<size_t>(load.tensor)];
  const int64_t* addresses = load.safe ? ints(load.address) : addresses_.data();
  if (!load.safe) {
    const int64_t* mask = step.mask >= 0 ? ints(step.mask) : nullptr;
    for (int i = 0; i < n; ++i) {
      in_bounds_[static_cast<size_t>(i)] =
          resolve(load, i, !mask || mask[i], &addresses_[static_cast<size_t>(i)]);
    }
  }
  if (!source.data) {
    run_fetch(step, load, addresses, n);
    if (tracks_errors_) load_errors(step, load, addresses, n);
    return;
  }
  double* out = floats(step.dst);
  int64_t* integers = ints(step.dst);
  in_memory(step.type, [&](auto zero) {
    using T = decltype(zero);
    const T* elements = reinterpret_cast<const T*>(source.data);
    if constexpr (std::is_floating_point_v<T>) {
      for (int i = 0; i < n; ++i) out[i] = elements[addresses[i]];
    } else if (is_narrow(step.type)) {
      const NarrowFloat narrow(step.type);
      for (int i = 0; i < n; ++i)
        out[i] = narrow.value(static_cast<uint32_t>(elements[addresses[i]]));
    } else {
      for (int i = 0; i < n; ++i) integers[i] = static_cast<int64_t>(elements[addresses[i]]);
      if (step.type == Type::kBool) wrap_strip(step.type, n, integers, integers);
    }
  });
  if (!load.safe && load.fill >= 0) {
    for (int i = 0; i < n; ++i) {
      if (in_bounds_[static_cast<size_t>(i)]) continue;
      out[i] = floats(load.fill)[i];
      integers[i] = ints(load.fill)[i];
    }
  }
  if (tracks_errors_) {
    std::fill_n(errors(step.dst), n, 0);
    load_errors(step, load, addresses, n);
  }
}

// A read of a tensor that is computed on demand: only the lanes that need it.
void Engine::run_fetch(const Step& step, const Load& load, const int64_t* addresses, int n) {
  int wanted = 0;
  for (int i = 0; i < n; ++i) {
    if (load.safe || in_bounds_[static_cast<size_t>(i)])
      wanted_[static_cast<size_t>(wanted++)] = addresses[i];
  }
  if (wanted) {
    sources_[static_cast<size_t>(load.tensor)].fetch(wanted_.data(), wanted, fetched_.data());
  }
  const Element* next = fetched_.data();
  for (int i = 0; i < n; ++i) {
    const bool have = load.safe || in_bounds_[static_cast<size_t>(i)];
    Element element;
    if (have) {
      element = *next++;
    } else if (load.fill >= 0) {
      element = {floats(load.fill)[i], ints(load.fill)[i]};
    }
    floats(step.dst)[i] = element.number;
    ints(step.dst)[i] = element.integer;
    if (tracks_errors_) errors(step.dst)[i] = element.error;
  }
}

void Engine::accumulate(int first, int n, Element* into) {
  if (tracks_errors_) accumulate_errors(first, n, into);
  const Reduce reduce = tensor_.reduce;
  if (!is_float(tensor_.type)) {
    const int64_t* v = ints(result_) + first;
    constexpr ExprOp kOps[] = {ExprOp::kConst, ExprOp::kAdd, ExprOp::kMul, ExprOp::kMax,
                               ExprOp::kMin};
    if (reduce == Reduce::kNone) into->integer = v[0];
    for (int i = 0; i < n && reduce != Reduce::kNone; ++i) {
      into->integer = apply_int(kOps[static_cast<int>(reduce)], Type::kI64, into->integer, v[i]);
    }
    return;
  }
  const double* v = floats(result_) + first;
  switch (reduce) {
    case Reduce::kNone: into->number = v[0]; break;
    case Reduce::kSum: into->number += sum(v, n); break;
    case Reduce::kProd:
      for (int i = 0; i < n; ++i) into->number *= v[i];
      break;
    case Reduce::kMax:
      for (int i = 0; i < n; ++i) into->number = v[i] > into->number ? v[i] : into->number;
      break;
    case Reduce::kMin:
      for (int i = 0; i < n; ++i) into->number = v[i] < into->number ? v[i] : into->number;
      break;
  }
}

}  // namespace lw
