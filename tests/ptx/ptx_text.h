// Texts of PTX for tests, and what the interpreter makes of them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/build/simt/ptx/interpreter/interpret.h"

namespace lw {

// An entry `k` of so many pointers p0, p1, ...
inline std::string ptx_text(const std::string& body, int pointers, bool hopper = false,
                            int threads = 1024) {
  std::string parameters;
  for (int i = 0; i < pointers; ++i) {
    parameters += concat(i == 0 ? "" : ", ", ".param .u64 p", i);
  }
  return concat(hopper ? ".version 8.0\n.target sm_90a\n" : ".version 7.5\n.target sm_80\n",
                ".address_size 64\n.extern .shared .align 1024 .b8 shared[];\n.visible .entry k(",
                parameters, ")\n.maxntid ", threads, ", 1, 1\n{\n", body, "}\n");
}

struct PtxRun {
  int64_t groups = 1, items = 32, shared = 0, cluster = 1;
  PtxOptions options = {};
  int64_t steps = 0;
  size_t pointers = 99;                 // of the buffers, those that are parameters: the first
  std::vector<std::string> extra = {};  // parameters after the pointers
};

// Runs it on buffers, which are the pointers. With LW_PTX_TEXTS set, the text is also written to a
// file in that folder, for an assembler to see.
inline absl::Status run_ptx(const std::string& text, PtxRun& run,
                            const std::vector<std::vector<uint8_t>*>& buffers) {
  auto module = parse_ptx(text);
  if (const char* folder = std::getenv("LW_PTX_TEXTS"); folder != nullptr && module.ok()) {
    std::ofstream(concat(folder, "/", std::hash<std::string>()(text), ".ptx")) << text;
  }
  if (!module.ok()) return module.status();
  PtxLaunch launch;
  launch.entry = "k";
  launch.groups[0] = run.groups;
  launch.items[0] = run.items;
  launch.cluster[0] = run.cluster;
  launch.shared_bytes = run.shared;
  std::vector<PtxMemory> memory;
  for (std::vector<uint8_t>* b : buffers) {
    if (launch.parameters.size() < run.pointers) {
      launch.parameters.push_back(ptx_pointer(b->data()));
    }
    memory.push_back(
        {reinterpret_cast<uint64_t>(b->data()), static_cast<int64_t>(b->size()), true});
  }
  for (const std::string& p : run.extra) launch.parameters.push_back(p);
  PtxStatistics statistics;
  const absl::Status status = interpret_ptx(*module, launch, memory, run.options, &statistics);
  run.steps = statistics.steps;
  return status;
}

template <class T>
std::vector<uint8_t> bytes_of_values(const std::vector<T>& values) {
  std::vector<uint8_t> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}
template <class T>
std::vector<T> values_of_bytes(const std::vector<uint8_t>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

// What a body of one warp writes into p0, 32 values of u32.
inline std::vector<uint32_t> warp_result(const std::string& body, PtxRun run = {},
                                         bool hopper = false) {
  std::vector<uint8_t> out(static_cast<size_t>(run.items * 4));
  const absl::Status status = run_ptx(ptx_text(body, 1, hopper), run, {&out});
  EXPECT_TRUE(status.ok()) << status;
  return values_of_bytes<uint32_t>(out);
}
// The error of such a body.
inline std::string warp_error(const std::string& body, PtxRun run = {}, bool hopper = false) {
  std::vector<uint8_t> out(static_cast<size_t>(run.items * 4));
  return std::string(run_ptx(ptx_text(body, 1, hopper), run, {&out}).message());
}

template <class T>
std::string ptx_register_type() {
  if (std::is_same_v<T, bool>) return "pred";
  const char* sort = std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "s" : "b";
  return concat(sort, sizeof(T) * 8);
}

// Values at which arithmetic turns, and some between.
template <class T>
std::vector<T> telling_values() {
  std::vector<T> out;
  Rng rng(7);
  if constexpr (std::is_same_v<T, bool>) {
    out = {false, true};
  } else if constexpr (std::is_floating_point_v<T>) {
    using L = std::numeric_limits<T>;
    out = {0,
           T(-0.0),
           1,
           -1,
           T(0.5),
           T(-1.5),
           T(2.5),
           T(3.7),
           T(-100.25),
           T(1e10),
           T(-3e20),
           T(255.5),
           T(65504),
           T(1e-5),
           L::min(),
           L::denorm_min(),
           -L::denorm_min() * 3,
           L::max(),
           L::infinity(),
           -L::infinity(),
           L::quiet_NaN()};
  } else {
    using L = std::numeric_limits<T>;
    out = {0,
           1,
           2,
           3,
           7,
           31,
           T(32),
           T(33),
           T(100),
           L::max(),
           T(L::max() - 1),
           L::min(),
           T(L::min() + 1),
           T(-1),
           T(-2),
           T(-77)};
    for (int i = 0; i < 5; ++i)
      out.push_back(static_cast<T>(rng.next()));
  }
  return out;
}

template <class T>
bool same_value(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a && b != b) return true;
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Runs `instruction`, of registers %d, %a, %b, %c, for all combinations of values and compares each
// result with f's. Predicates are stored as numbers.
template <class D, class A, class B, class C, class F>
void expect_instruction(const std::string& instruction, F&& f, const std::vector<A>& as,
                        const std::vector<B>& bs, const std::vector<C>& cs, bool hopper = false) {
  static_assert(!std::is_same_v<A, bool> && !std::is_same_v<B, bool> && !std::is_same_v<C, bool>);
  std::vector<A> a;
  std::vector<B> b;
  std::vector<C> c;
  for (const A x : as) {
    for (const B y : bs) {
      for (const C z : cs) {
        a.push_back(x);
        b.push_back(y);
        c.push_back(z);
      }
    }
  }
  using Out = std::conditional_t<std::is_same_v<D, bool>, uint32_t, D>;
  const int64_t count = static_cast<int64_t>(a.size());
  std::string body = concat(
      ".reg .pred %skip;\n.reg .b32 %n, %i, %t;\n.reg .b64 %q, %o;\n.reg .", ptx_register_type<D>(),
      " %d;\n.reg .", ptx_register_type<Out>(), " %out;\n.reg .", ptx_register_type<A>(),
      " %a;\n.reg .", ptx_register_type<B>(), " %b;\n.reg .", ptx_register_type<C>(), " %c;\n",
      "mov.u32 %i, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %t, %tid.x;\n",
      "mad.lo.u32 %i, %i, %n, %t;\nsetp.ge.u32 %skip, %i, ", count, ";\n@%skip ret;\n");
  const auto place = [&](int p, size_t size) {
    return concat("ld.param.u64 %q, [p", p, "];\ncvta.to.global.u64 %q, %q;\nmul.wide.u32 %o, %i, ",
                  size, ";\nadd.u64 %q, %q, %o;\n");
  };
  const auto type = [](size_t size) { return concat("b", size * 8); };
  const auto load = [&](int p, const char* r, size_t size, const std::string& own) {
    return concat(place(p, size), "ld.global.", own[0] == 'b' ? type(size) : own, " ", r,
                  ", [%q];\n");
  };
  body += load(1, "%a", sizeof(A), ptx_register_type<A>());
  body += load(2, "%b", sizeof(B), ptx_register_type<B>());
  body += load(3, "%c", sizeof(C), ptx_register_type<C>());
  body += instruction + "\n";
  if (std::is_same_v<D, bool>)
    body += "selp.b32 %out, 1, 0, %d;\n";
  else
    body += concat("mov.", ptx_register_type<D>(), " %out, %d;\n");
  body += place(0, sizeof(Out));
  body += concat("st.global.", ptx_register_type<Out>(), " [%q], %out;\n");
  std::vector<uint8_t> out(static_cast<size_t>(count) * sizeof(Out)),
      ab = bytes_of_values(a), bb = bytes_of_values(b), cb = bytes_of_values(c);
  PtxRun run;
  run.items = 128;
  run.groups = (count + 127) / 128;
  const absl::Status status = run_ptx(ptx_text(body, 4, hopper), run, {&out, &ab, &bb, &cb});
  ASSERT_TRUE(status.ok()) << instruction << ": " << status;
  const std::vector<Out> results = values_of_bytes<Out>(out);
  for (int64_t i = 0; i < count; ++i) {
    const Out want = static_cast<Out>(f(a[i], b[i], c[i]));
    ASSERT_TRUE(same_value(results[i], want))
        << instruction << " of " << +a[i] << ", " << +b[i] << ", " << +c[i] << " gives "
        << +results[i] << ", not " << +want;
  }
}
template <class D, class A, class F>
void expect_unary(const std::string& instruction, F&& f, bool hopper = false) {
  expect_instruction<D, A, uint32_t, uint32_t>(
      instruction, [&](A a, uint32_t, uint32_t) { return f(a); }, telling_values<A>(), {0}, {0},
      hopper);
}
template <class D, class A, class B, class F>
void expect_binary(const std::string& instruction, F&& f, bool hopper = false) {
  expect_instruction<D, A, B, uint32_t>(
      instruction, [&](A a, B b, uint32_t) { return f(a, b); }, telling_values<A>(),
      telling_values<B>(), {0}, hopper);
}
template <class D, class A, class B, class C, class F>
void expect_ternary(const std::string& instruction, F&& f, bool hopper = false) {
  expect_instruction<D, A, B, C>(instruction, f, telling_values<A>(), telling_values<B>(),
                                 telling_values<C>(), hopper);
}

}  // namespace lw
