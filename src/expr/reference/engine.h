// Evaluates one tensor's definition at points: the machine under interpret() and PointOracle.
//
// A body is compiled once to instructions over strips: arrays of up to kStrip values, one for each
// pair (point, reduction index) in turn. Each instruction is one loop over a strip, so dispatch
// costs nothing and a matrix product runs at some hundred million multiply-adds a second, which is
// what verifying 4096 points of a 1024^3 product needs. Floats are f64 throughout, integers i64
// wrapped to their type.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "src/expr/expr.h"

namespace lw {

// One value: `number` of a float tensor, `integer` of the others; `error` as in PointOracle.
struct Element {
  double number = 0;
  int64_t integer = 0;
  double error = 0;
  // While its reduction runs: the sum of the |terms| (of a product: the product of the |factors|
  // above 1), and whether every term so far was an exact whole number, and finite.
  double scale = 0;
  bool whole = true, finite = true;
};

class Engine {
 public:
  // Where the tensors that a body reads come from: memory, or computed on demand.
  struct Source {
    const std::byte* data = nullptr;
    // When `data` is null: fills out[i] with the element at addresses[i] (row-major), i < count.
    std::function<void(const int64_t* addresses, int count, Element* out)> fetch;
  };

  // REQUIRES: `program` outlives the engine; it passed verify(). `errors`: also track them.
  Engine(const Program& program, int tensor, bool errors);

  void set_source(int tensor, Source source) { sources_[static_cast<size_t>(tensor)] = source; }

  // out[i] = the element at points[i] (row-major), rounded to the tensor's type.
  void evaluate(const int64_t* points, int64_t count, Element* out);

  // The first gather index out of range, "" if there was none (it is clamped).
  const std::string& error() const { return error_; }

 private:
  struct Load {
    int tensor;
    bool safe;                             // in bounds whatever the conditions: no checks
    bool gather;
    int fill = -1;                         // pad's value
    int address = -1;                      // safe: slot of the row-major address
    std::vector<int> indices;              // otherwise: slots of the indices
    std::vector<int64_t> shape;
  };
  struct Step {
    ExprOp op;
    Type type;                             // of the result
    Type from;                             // of the operands
    int dst, a = -1, b = -1, c = -1;
    int mask = -1;                         // slot of "is evaluated", -1: always
    int load = -1;                         // in loads_
    std::vector<std::pair<int, int64_t>> terms =
        {};  // kAxis stands for: dst = offset + sum of terms
    int64_t offset = 0;
  };

  int compile(const Expr& e, int mask);
  int compile_read(const Expr& read, int fill, int mask);
  int compile_select(const Expr& e, int mask);
  int compile_index(const Expr& index, int mask);
  int linear(std::vector<std::pair<int, int64_t>> terms, int64_t offset);
  int emit(Step step);
  int new_slot() { return slots_++; }

  double* floats(int slot) { return &floats_[static_cast<size_t>(slot) * kStrip]; }
  double* errors(int slot) { return &errors_[static_cast<size_t>(slot) * kStrip]; }
  int64_t* ints(int slot) { return &ints_[static_cast<size_t>(slot) * kStrip]; }

  void run_strip(int n);
  void run_step(const Step& step, int n);
  void run_load(const Step& step, int n);
  void run_fetch(const Step& step, const Load& load, const int64_t* addresses, int n);
  void run_cast(const Step& step, int n);
  void run_select(const Step& step, int n);
  // error.cc: what a kernel may be off by.
  void find_uncertain();
  void run_errors(const Step& step, int n);
  void run_integer_errors(const Step& step, int n);
  void load_errors(const Step& step, const Load& load, const int64_t* addresses, int n);
  bool may_be_product(const Step& step) const;
  double binary_error(const Step& step, int lane);
  double cast_error(const Step& step, int lane);
  void accumulate_errors(int first, int n, Element* into);
  void finish_errors(Element* element) const;
  bool resolve(const Load& load, int lane, bool active, int64_t* address);
  void evaluate_together(const int64_t* points, int count, int64_t terms, Element* out);
  void start_point(int64_t point);
  int fill_axes(int at, int n);
  void accumulate(int first, int n, Element* into);
  void finish(Element* element) const;

  static constexpr int kStrip = 128;
  static constexpr int kTogether = 16;     // points whose long reductions advance side by side
  const Program& program_;
  const Tensor& tensor_;
  bool tracks_errors_;
  std::vector<Source> sources_;
  std::vector<Load> loads_;
  std::vector<Step> steps_;
  std::vector<std::pair<int, Expr>> constants_;
  int slots_ = 0, result_ = 0;
  std::vector<double> floats_, errors_;
  std::vector<int64_t> ints_;
  // Per slot: whether an integer in it can be in error at all; whether it is a product of floats,
  // which a kernel may add without rounding it.
  std::vector<char> uncertain_, product_;
  double tiny_ = 0;                        // least rounding error of arithmetic in f32
  double terms_ = 1;                       // of the reduction
  std::vector<char> in_bounds_;
  std::vector<int64_t> addresses_, wanted_;
  std::vector<Element> fetched_;
  std::vector<int64_t> index_;             // of the point and reduction index at hand, per axis
  std::vector<int64_t> extents_;
  int64_t last_point_ = -2;
  std::string error_;
};

}  // namespace lw
