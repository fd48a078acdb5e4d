// The C++ API: builds the same programs as the language.
//
//   OpBuilder b("dense_relu");
//   TensorRef A = b.input("A", Type::kF32, {M, K}), B = b.constant("B", Type::kF32, {K, N});
//   TensorRef bias = b.input("bias", Type::kF32, {N});
//   TensorRef C = b.compute("C", {{"i", M}, {"j", N}}, [&](const Values& x) {
//     ReduceAxis k = b.reduce_axis("k", K);
//     return b.sum({k}, A(x[0], k) * B(k, x[1]));
//   });
//   b.output("D", {{"i", M}, {"j", N}}, [&](const Values& x) {
//     return max(C(x[0], x[1]) + bias(x[1]), 0);
//   });
//   absl::StatusOr<Program> program = b.build();
//
// The builder makes the syntax tree that the parser makes of text, so literals, types, splitting of
// reductions and bounds follow the language's rules, and all errors of an op are returned by one
// build(). Numbers are literals: they take the type of the other operand. Values are immutable and
// cheap to copy; a builder is used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/program.h"
#include "loopwright/type.h"

namespace lw {

struct Node;
struct OpSyntax;

// What lies beyond the ends of a dimension: pad(READ, edge | reflect | wrap).
enum class Border : uint8_t { kNone, kEdge, kReflect, kWrap };

struct ReduceAxis {
  std::string name;
  int64_t extent;
};

// An expression under construction.
class Value {
 public:
  Value(int literal);                      // NOLINT: literals convert
  Value(int64_t literal);                  // NOLINT
  Value(double literal);                   // NOLINT
  Value(bool literal);                     // NOLINT
  Value(const ReduceAxis& axis);           // NOLINT: the axis' index
  explicit Value(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  const std::shared_ptr<const Node>& node() const { return node_; }

 private:
  std::shared_ptr<const Node> node_;
};
using Values = std::vector<Value>;

// A declared tensor; calling it reads an element.
class TensorRef {
 public:
  explicit TensorRef(std::string name) : name_(std::move(name)) {}
  template <class... Indices>
  Value operator()(const Indices&... indices) const {
    return read({Value(indices)...});
  }
  Value read(const Values& indices) const;

 private:
  std::string name_;
};

class OpBuilder {
 public:
  using Body = std::function<Value(const Values& axes)>;

  explicit OpBuilder(std::string name);
  TensorRef input(const std::string& name, Type type, const std::vector<int64_t>& shape);
  TensorRef constant(const std::string& name, Type type, const std::vector<int64_t>& shape);
  TensorRef compute(const std::string& name, const std::vector<Axis>& axes, const Body& body);
  TensorRef output(const std::string& name, const std::vector<Axis>& axes, const Body& body);

  ReduceAxis reduce_axis(const std::string& name, int64_t extent) const { return {name, extent}; }
  Value sum(const std::vector<ReduceAxis>& axes, const Value& body) const;
  Value prod(const std::vector<ReduceAxis>& axes, const Value& body) const;
  Value max(const std::vector<ReduceAxis>& axes, const Value& body) const;
  Value min(const std::vector<ReduceAxis>& axes, const Value& body) const;

  absl::StatusOr<Program> build() const;

 private:
  TensorRef declare(const std::string& name, Type type, const std::vector<int64_t>& shape,
                    bool is_const);
  TensorRef define(const std::string& name, const std::vector<Axis>& axes, const Body& body,
                   bool is_out);
  void check_name(const std::string& name, const char* what) const;

  std::shared_ptr<OpSyntax> syntax_;
  mutable std::vector<std::string> errors_;
};

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator%(const Value& a, const Value& b);
Value operator<(const Value& a, const Value& b);
Value operator<=(const Value& a, const Value& b);
Value operator>(const Value& a, const Value& b);
Value operator>=(const Value& a, const Value& b);
Value operator==(const Value& a, const Value& b);
Value operator!=(const Value& a, const Value& b);
Value operator&&(const Value& a, const Value& b);
Value operator||(const Value& a, const Value& b);
Value operator-(const Value& a);
Value operator!(const Value& a);
// A function of the language, by its operation.
Value call(ExprOp function, std::initializer_list<Value> operands);
inline Value min(const Value& a, const Value& b) { return call(ExprOp::kMin, {a, b}); }
inline Value max(const Value& a, const Value& b) { return call(ExprOp::kMax, {a, b}); }
inline Value pow(const Value& a, const Value& b) { return call(ExprOp::kPow, {a, b}); }
inline Value abs(const Value& a) { return call(ExprOp::kAbs, {a}); }
inline Value exp(const Value& a) { return call(ExprOp::kExp, {a}); }
inline Value log(const Value& a) { return call(ExprOp::kLog, {a}); }
inline Value sqrt(const Value& a) { return call(ExprOp::kSqrt, {a}); }
inline Value rsqrt(const Value& a) { return call(ExprOp::kRsqrt, {a}); }
inline Value tanh(const Value& a) { return call(ExprOp::kTanh, {a}); }
inline Value erf(const Value& a) { return call(ExprOp::kErf, {a}); }
inline Value sigmoid(const Value& a) { return call(ExprOp::kSigmoid, {a}); }
inline Value floor(const Value& a) { return call(ExprOp::kFloor, {a}); }
inline Value ceil(const Value& a) { return call(ExprOp::kCeil, {a}); }
inline Value round(const Value& a) { return call(ExprOp::kRound, {a}); }  // half to even

Value clamp(const Value& x, const Value& lo, const Value& hi);
Value cast(Type type, const Value& a);
Value where(const Value& condition, const Value& a, const Value& b);
Value pad(const Value& read, const Value& fill);  // `read` is TensorRef's call
Value pad(const Value& read, Border border);      // not kNone

}  // namespace lw
