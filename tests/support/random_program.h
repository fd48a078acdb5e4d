// Random programs in the language, for the property tests. Values stay small integers wherever the
// type can hold them, so that reassociated float sums are exact and a point computed twice, not at
// all or from the wrong place differs by far more than rounding.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"

namespace lw {

class ProgramWriter {
 public:
  explicit ProgramWriter(Rng& rng) : rng_(rng) {}

  // A chain of the kind that is fused at rows.
  std::string write_chain() {
    type_ = work_ = chance(70) ? "f32" : "i32";
    return chain();
  }

  // A convolution of the kind that `winograd` takes, mostly along both axes.
  std::string write_convolution() {
    type_ = work_ = chance(70) ? "f32" : "f64";
    return window(/*neighbours=*/true);
  }

  // A map with factors that only some of its axes move.
  std::string write_scaled() {
    type_ = work_ = chance(70) ? "f32" : "f64";
    return scaled();
  }

  // One op of one to four definitions, the types of one family.
  std::string write() {
    static constexpr const char* kTypes[] = {"f32", "f32", "f32", "f64", "f16", "bf16",
                                             "i64", "i32", "i16", "i8",  "u8"};
    type_ = kTypes[rng_.below(std::size(kTypes))];
    work_ = type_[0] == 'f' || type_[0] == 'b' ? (type_ == "f64" ? "f64" : "f32")
                                               : (type_ == "i64" ? "i64" : "i32");
    if (chance(12)) return window();
    if (chance(8)) return chain();
    if (chance(15)) return narrow_product();
    std::string text = "op p() {\n";
    const int64_t inputs = 1 + rng_.below(3);
    for (int64_t n = 0; n < inputs; ++n) {
      Known input{concat("A", n), {}, type_};
      for (int64_t rank = 1 + rng_.below(3); rank > 0; --rank) input.shape.push_back(extent());
      text += concat("  in ", input.name, ": ", type_, shape_text(input.shape),
                     rng_.below(4) == 0 ? " const\n" : "\n");
      known_.push_back(std::move(input));
    }
    if (rng_.below(4) == 0) {
      text += concat("  in F: bool", shape_text(known_[0].shape), "\n");
      flags_ = true;
    }
    const int64_t definitions = 1 + rng_.below(4);
    for (int64_t n = 0; n < definitions; ++n) text += define(n, n + 1 == definitions);
    return text + "}\n";
  }

 private:
  struct Known {
    std::string name;
    std::vector<int64_t> shape;
    std::string type;
  };
  struct Axis {
    std::string name;
    int64_t extent;
  };

  // A padded window that slides over an image, with weights or as a maximum: strides, dilations and
  // padding of any size, channels first or last; or, transposed, spreads each pixel over a window.
  // `neighbours`: weighted, three taps along the first axis, no strides.
  std::string window(bool neighbours = false) {
    const bool first = chance(30), weighted = chance(75) || neighbours, epilogue = chance(30);
    const bool transposed = weighted && !neighbours && chance(35);
    int64_t taps[] = {1 + rng_.below(5), 1 + rng_.below(4)};
    int64_t stride = 1 + rng_.below(3), dilation = transposed ? 1 : 1 + rng_.below(2);
    if (neighbours) taps[0] = 3, taps[1] = chance(80) ? 3 : taps[1], stride = dilation = 1;
    const int64_t pad = rng_.below(5);
    int64_t image[2], result[2];
    for (int d = 0; d < 2; ++d) {
      const int64_t reach = dilation * (taps[d] - 1) + 1, wanted = 1 + rng_.below(d == 0 ? 9 : 30);
      image[d] = std::max<int64_t>(wanted, reach - 2 * pad);
      result[d] = (image[d] + 2 * pad - reach) / stride + 1;
      if (!transposed) continue;
      image[d] = wanted;
      result[d] = std::max<int64_t>(1, (wanted - 1) * stride - 2 * pad + taps[d]);
    }
    const int64_t channels = extent(), filters = extent();
    const auto at = [&](const char* axis, const char* tap) {
      if (transposed) return concat("(", axis, " + ", pad, " - ", tap, ") / ", stride);
      return concat(axis, " * ", stride, " + ", tap, " * ", dilation, " - ", pad);
    };
    const auto order = [&](const auto& channel, const auto& y, const auto& x) {
      return first ? concat("[", channel, ", ", y, ", ", x, "]")
                   : concat("[", y, ", ", x, ", ", channel, "]");
    };
    const std::string axes = order(concat("k: ", weighted ? filters : channels),
                                   concat("y: ", result[0]), concat("x: ", result[1]));
    const std::string name = epilogue ? "C" : "Y";
    std::string text = concat("op p() {\n  in X: ", type_,
                              order(concat(channels), concat(image[0]), concat(image[1])), "\n");
    if (weighted) {
      text += concat("  in F: ", type_, shape_text({taps[0], taps[1], channels, filters}),
                     chance(50) ? " const\n" : "\n");
    }
    text += concat("  ", epilogue ? "" : "out ", name, axes, " = ");
    const std::string read = order(weighted ? "c" : "k", at("y", "r"), at("x", "s"));
    const std::string window = concat("r: ", taps[0], ", s: ", taps[1]);
    std::string term = concat("cast(", work_, ", pad(X", read, ", 0))");
    if (weighted) term = concat(term, " * cast(", work_, ", F[r, s, c, k])");
    if (transposed) {
      term = concat("where((y + ", pad, " - r) % ", stride, " == 0 && (x + ", pad, " - s) % ",
                    stride, " == 0, ", term, ", 0)");
    }
    const std::string reduce = weighted || chance(50) ? "sum[" : "max[";
    text += concat(reduce, window, weighted ? concat(", c: ", channels) : "", "](", term, ")\n");
    if (epilogue) text += concat("  out Y", axes, " = max(C", order("k", "y", "x"), " + 1, 0)\n");
    return text + "}\n";
  }

  // A product of matrices, what is done to its rows, and often a second product: softmax of scores,
  // attention with and without a mask, norms that feed a product, two products in a row. `exact`
  // leaves out what rounds.
  std::string chain() {
    const bool exact = work_[0] == 'i', second = chance(70), masked = chance(30);
    const bool batched = chance(50);
    const int64_t rows = extent(), keys = extent(), depth = extent(), columns = extent();
    const std::string outer = batched ? concat(1 + rng_.below(3), ", ") : "";
    const std::string b = batched ? "b, " : "", batch = batched ? "b: " + outer : "";
    const auto typed = [&](const std::string& tensor, const char* at) {
      const std::string read = concat(tensor, "[", b, at, "]");
      return type_ == work_ ? read : concat("cast(", work_, ", ", read, ")");
    };
    const auto input = [&](const char* name, int64_t m, int64_t n) {
      return concat("  in ", name, ": ", type_, "[", outer, m, ", ", n, "]\n");
    };
    std::string text = "op p() {\n" + input("Q", rows, depth) + input("K", keys, depth);
    if (second) text += input("V", keys, columns);
    const std::string row = concat("[", batch, "i: ", rows, "]"), at = concat("[", b, "i]");
    const std::string square = concat("[", batch, "i: ", rows, ", j: ", keys, "]");
    const std::string point = concat("[", b, "i, j]");
    const std::string product =
        concat("sum[d: ", depth, "](", typed("Q", "i, d"), " * ", typed("K", "j, d"), ")");
    // Beyond the mask nothing counts where that is minus infinity.
    const char* const masks[] = {"j <= i + 1", "j <= i", "j <= i && i <= j + 9"};
    const std::string mask = masks[rng_.below(3)];
    const char* const beyond = !exact && rng_.below(2) == 0 ? "-inf" : "-50";
    const std::string scores =
        masked ? concat("where(", mask, ", ", product, ", ", beyond, ")") : product;
    const int64_t kind = rng_.below(4);
    text += concat("  P", square, " = ", scores, "\n");
    std::string weights = "P";
    if (kind > 0) {
      text += concat("  top", row, " = max[j: ", keys, "](P", point, ")\n  E", square, " = ",
                     exact ? concat("max(P", point, " - top", at, ", -9)")
                           : concat("exp(P", point, " - top", at, ")"),
                     "\n");
      weights = "E";
    }
    if (kind > 1) text += concat("  total", row, " = sum[j: ", keys, "](E", point, ")\n");
    const std::string divided = kind > 1 ? concat(exact ? " - total" : " / total", at) : "";
    if (!second) return concat(text, "  out Y", square, " = ", weights, point, divided, "\n}\n");
    const bool late = kind == 3;           // the weighted sum is divided instead of the weights
    if (kind == 2) {
      text += concat("  W", square, " = E", point, divided, "\n");
      weights = "W";
    }
    const std::string results = concat("[", batch, "i: ", rows, ", e: ", columns, "]");
    return concat(text, "  O", results, " = sum[j: ", keys, "](", weights, point, " * ",
                  typed("V", "j, e"), ")\n  out Y", results, " = O[", b, "i, e]",
                  late ? divided : " + 1", "\n}\n");
  }

  // Factors cost a root each; of squares it is exact.
  std::string scaled() {
    static constexpr const char* kAxes[] = {"p", "g", "c"};
    const std::vector<int64_t> shape = {extent(), extent(), extent()};
    std::string inputs = concat("  in A: ", type_, shape_text(shape), "\n");
    std::string value = "A[p, g, c]";
    for (int n = 0; n < 2; ++n) {
      std::vector<int64_t> some;
      std::string indices;
      for (int a = 0; a < 3; ++a) {
        if (some.empty() ? a < 2 && chance(50) : chance(50)) continue;
        some.push_back(shape[a]);
        indices += concat(indices.empty() ? "" : ", ", kAxes[a]);
      }
      const std::string name = concat("B", n), read = concat(name, "[", indices, "]");
      inputs += concat("  in ", name, ": ", type_, shape_text(some), "\n");
      value = concat(value, chance(70) ? " * " : " + ", "sqrt(", read, " * ", read, ")");
    }
    return concat("op p() {\n", inputs, "  out Y[p: ", shape[0], ", g: ", shape[1], ", c: ",
                  shape[2], "] = ", value, "\n}\n");
  }

  // A product of matrices of narrow types, either way round and perhaps padded or conditional.
  std::string narrow_product() {
    static constexpr const char* kPairs[][3] = {{"u8", "i8", "i32"},   {"i8", "u8", "i32"},
                                                {"i16", "i16", "i32"}, {"bf16", "bf16", "f32"},
                                                {"u8", "i8", "i32"},   {"i8", "i8", "i32"},
                                                {"f16", "f16", "f32"}};
    const char* const* types = kPairs[rng_.below(std::size(kPairs))];
    type_ = types[0], work_ = types[2];
    const int64_t m = extent(), n = 1 + rng_.below(50), k = 1 + rng_.below(45);
    const bool across = chance(30), along = chance(40), shifted = chance(20);
    const std::string at = shifted ? "k - 1" : "k";
    std::string a = across ? concat("A[", at, ", i]") : concat("A[i, ", at, "]");
    if (shifted) a = concat("pad(", a, ", 0)");
    std::string term = concat("cast(", work_, ", ", a, ") * cast(", work_,
                              along ? ", B[j, k])" : ", B[k, j])");
    if (chance(15)) term = concat("where(i < 3, ", term, ", 0)");
    return concat("op p() {\n  in A: ", types[0], shape_text(across ? std::vector<int64_t>{k, m}
                                                                  : std::vector<int64_t>{m, k}),
                  "\n  in B: ", types[1],
                  shape_text(along ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}),
                  chance(50) ? " const\n" : "\n", "  out C[i: ", m, ", j: ", n, "] = sum[k: ", k,
                  "](", term, ")\n}\n");
  }

  bool chance(int percent) { return rng_.below(100) < percent; }
  int64_t extent() {
    return chance(15) ? 1 : chance(20) ? 16 + rng_.below(24) : 2 + rng_.below(12);
  }

  static std::string shape_text(const std::vector<int64_t>& shape) {
    std::string text = "[";
    for (size_t d = 0; d < shape.size(); ++d) text += concat(d ? ", " : "", shape[d]);
    return text + "]";
  }
  static std::string axes_text(const std::vector<Axis>& axes) {
    std::string text = "[";
    for (size_t a = 0; a < axes.size(); ++a)
      text += concat(a ? ", " : "", axes[a].name, ": ", axes[a].extent);
    return text + "]";
  }

  // An index below `size`; *padded: it may leave the tensor.
  std::string index(const std::vector<Axis>& axes, int64_t size, size_t dim, bool* padded) {
    if (axes.empty() || chance(4)) return concat(rng_.below(size));
    const Axis& a = chance(60) && dim < axes.size()
                        ? axes[dim]
                        : axes[rng_.below(static_cast<int64_t>(axes.size()))];
    const Axis& b = axes[rng_.below(static_cast<int64_t>(axes.size()))];
    const int64_t room = size - a.extent;
    const int64_t kind = rng_.below(20);
    if (kind == 0 && room >= 0) return concat(size - 1, " - ", a.name);
    if (kind == 1 && 2 * a.extent - 1 <= size) return concat(a.name, " * 2");
    if (kind <= 3 && a.extent + b.extent - 1 <= size && &a != &b)
      return concat(a.name, " + ", b.name);
    if (kind == 4 && room > 0) return concat(a.name, " + ", rng_.below(room + 1));
    if (kind == 5) return concat(a.name, " / 2 % ", size);
    if (kind == 6) return concat("clamp(", a.name, " - 2, 0, ", size - 1, ")");
    if (kind == 7) return concat("min(abs(", b.name, " - ", a.name, "), ", size - 1, ")");
    if (room >= 0) return a.name;
    if (chance(50)) return concat(a.name, " % ", size);
    *padded = true;
    return concat(a.name, " + ", b.name, " - ", 1 + rng_.below(2));
  }

  std::string read(const Known& tensor, const std::vector<Axis>& axes, bool identity) {
    bool padded = false;
    std::string text = tensor.name + "[";
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      text +=
          concat(d ? ", " : "", identity ? axes[d].name : index(axes, tensor.shape[d], d, &padded));
    }
    text += "]";
    static constexpr const char* kBeyond[] = {"0", "0", "edge", "reflect", "wrap"};
    if (padded) text = concat("pad(", text, ", ", kBeyond[rng_.below(std::size(kBeyond))], ")");
    return tensor.type == work_ ? text : concat("cast(", work_, ", ", text, ")");
  }

  std::string define(int64_t number, bool last) {
    Known made{last ? "Y" : concat("T", number), {}, work_};
    const Known* before = number > 0 ? &known_.back() : nullptr;
    const bool identity = before != nullptr && chance(50);
    std::vector<Axis> axes;
    const int64_t rank = identity ? static_cast<int64_t>(before->shape.size()) : rng_.below(4);
    for (int64_t d = 0; d < rank; ++d) {
      const std::string name(1, static_cast<char>('a' + d));
      const Known& source = known_[rng_.below(static_cast<int64_t>(known_.size()))];
      const bool follow = chance(70) && d < static_cast<int64_t>(source.shape.size());
      axes.push_back({name, identity ? before->shape[d] : follow ? source.shape[d] : extent()});
      made.shape.push_back(axes.back().extent);
    }
    const bool reduces = !identity && chance(65);
    const std::vector<Axis> spatial = axes;
    std::vector<Axis> reduced;
    for (int64_t r = reduces ? 1 + rng_.below(2) : 0; r > 0; --r) {
      reduced.push_back({concat("k", r), extent()});
      axes.push_back(reduced.back());
    }
    std::string body =
        before != nullptr ? read(*before, axes, identity) : read(known_[0], axes, false);
    for (int64_t terms = rng_.below(3); terms > 0; --terms) {
      const std::string other =
          read(known_[rng_.below(static_cast<int64_t>(known_.size()))], axes, false);
      switch (rng_.below(5)) {
        case 0: body = concat("max(", body, ", ", other, ")"); break;
        case 1: body = concat(body, " - ", other); break;
        case 2:
          body = number == 0 ? concat("(", body, ") * ", other) : concat(body, " + ", other);
          break;
        case 3:
          body =
              concat("where(", axes.empty() ? "1" : axes[0].name, " < 3, ", body, ", ", other, ")");
          break;
        default: body = concat(body, " + ", other);
      }
    }
    if (flags_ && number == 0) {
      Known flags{"F", known_[0].shape, work_};
      bool padded = false;
      std::string condition = "F[";
      for (size_t d = 0; d < flags.shape.size(); ++d) {
        std::string i = index(axes, flags.shape[d], d, &padded);
        condition += concat(d ? ", " : "", padded ? concat("0") : i);
        padded = false;
      }
      body = concat("where(", condition, "], ", body, ", 1)");
    }
    if (reduces) {
      static constexpr const char* kReduces[] = {"sum", "sum", "sum", "max", "min", "prod"};
      const std::string_view kind = kReduces[rng_.below(std::size(kReduces))];
      // The largest of 16-bit floats is one of them; sums would round in an order that may change.
      const bool narrow = (type_ == "f16" || type_ == "bf16") && (kind == "max" || kind == "min");
      if (narrow && chance(50)) {
        made.type = type_;
        body = concat("cast(", type_, ", ", body, ")");
      }
      // Products of more than signs and zeros overflow, in an order that may change.
      if (kind == "prod") body = concat("clamp(", body, ", -1, 1)");
      body = concat(kind, axes_text(reduced), "(", body, ")");
    } else if (chance(15)) {
      made.type = type_;
      body = concat("cast(", type_, ", ", body, ")");
    }
    const bool output = last || chance(15);
    const std::string text =
        concat(output ? "  out " : "  ", made.name, axes_text(spatial), " = ", body, "\n");
    known_.push_back(std::move(made));
    return text;
  }

  Rng& rng_;
  std::string type_, work_;
  std::vector<Known> known_;
  bool flags_ = false;
};

}  // namespace lw
