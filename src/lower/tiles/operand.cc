#include "src/lower/tiles/operand.h"

#include <utility>

#include "schedules/dot.h"
#include "src/lower/statements.h"

namespace lw::lowering {

Operand::Operand(Frame& f, const MatrixShape& shape, const Expr& factor, int side)
    : f_(f), shape_(shape), factor_(factor), type_(side == 0 ? shape.a : shape.b),
      axis_(f.stage.matrix_axes[side]), k_(f.stage.matrix_axes[2]),
      evaluator_(f.e, f.s, f.vars), rows_{evaluator_, evaluator_} {
  for (Evaluator* evaluator : {&evaluator_, &rows_[0], &rows_[1]}) {
    if (factor->op == ExprOp::kRead) evaluator->memory().keep_raw(true);
    // Beyond the end of its own axis it makes results that are not stored; of k, see part_of().
    if (!is_wide(f.e.nest, f.stage)) evaluator->leave_beyond();
  }
  tile_.axes = f.axes;
  tile_.offset.assign(f.axes.size(), 0);
  const int other = f.stage.matrix_axes[1 - side];
  tile_.axes[other].limits.clear();      // it does not move with that
  start_ = tile_;
  start_.axes[axis_].base = start_.axes[axis_].base + f.place.g;
  start_.axes[k_].base = start_.axes[k_].base + f.place.t * shape.pack;
}

std::vector<int> Operand::parts(int64_t at, int64_t step, int eights) {
  if (eights == 2) {
    for (const bool across : {false, true}) {
      if (std::vector<int> all = from_rows(at, step, across); !all.empty()) return all;
    }
  }
  std::vector<int> all;
  for (int part = 0; part < shape_.parts(); ++part) {
    for (int eight = 0; eight < eights; ++eight) {
      all.push_back(part_of(at + kMatrixRows * eight, step + int64_t{4} * shape_.pack * part));
    }
  }
  return all;
}

Row Operand::moved(Row row, int64_t at, int64_t step) const {
  row.move(axis_, at);
  row.move(k_, step);
  return row;
}

std::vector<int> Operand::from_rows(int64_t at, int64_t step, bool across) {
  if (elsewhere_[across]) return {};
  elsewhere_[across] = true;
  const int size = size_of(type_);
  const bool halves = shape_.parts() == 2 && shape_.pack * size == kMatrixPartBytes;
  const bool ends = !tile_.axes[k_].limits.empty();
  if (factor_->op != ExprOp::kRead || !halves || (across && size != 2) || ends) return {};
  Row row = moved(tile_, at, step);
  const int along = across ? axis_ : k_, other = across ? k_ : axis_;
  const int lanes = static_cast<int>(kMatrixRowBytes) / size;
  row.axes[other].base = row.axes[other].base + f_.place.row;
  row.axes[along].base = row.axes[along].base + f_.place.half * lanes;
  const Point point = make_point(f_, rows_[across], row, along, {0, lanes, lanes});
  std::vector<Stmt> made;
  int reg = -1;
  f_.e.emit_into(made, [&] { reg = rows_[across].evaluate(factor_, point).reg; });
  const bool found = is_row(made, reg);
  for (Stmt& s : made) {
    if (found || s.kind == Stmt::Kind::kInt) f_.e.out->push_back(std::move(s));
  }
  if (!found) return {};
  elsewhere_[across] = false;
  std::vector<int> all(4);
  for (int& part : all) part = f_.e.new_register(type_, shape_.pack);
  Stmt parts;
  parts.op = Op::kMatrixParts;
  parts.srcs[0] = reg;
  parts.integer = across ? 1 : 0;
  parts.many = across ? std::vector<int>{all[0], all[2], all[1], all[3]} : all;
  f_.e.emit(std::move(parts));
  return all;
}

bool Operand::is_row(const std::vector<Stmt>& made, int reg) const {
  for (const Stmt& s : made) {
    if (s.kind != Stmt::Kind::kInt && &s != &made.back()) return false;
  }
  if (made.empty() || !is_op(made.back(), Op::kLoad)) return false;
  const Stmt& load = made.back();
  const Buffer& buffer = f_.e.kernel.buffers[load.buffer];
  return load.dst == reg && load.mask < 0 && load.indices < 0 && load.stride == 1 &&
         buffer.scope == Scope::kManaged && buffer.type == type_ &&
         byte_alignment(load.index, size_of(type_)) >= kMatrixRowBytes;
}

int Operand::part_of(int64_t at, int64_t step) {
  const Row row = moved(start_, at, step);
  const Chunk chunk{0, shape_.pack, shape_.pack};
  const Point point = make_point(f_, evaluator_, row, k_, chunk);
  Registers& registers = evaluator_.registers();
  Value value = registers.convert(type_, evaluator_.evaluate(factor_, point));
  value = registers.broadcast(value, shape_.pack);
  // Beyond the end of k there may be numbers, and what is made of none is not always zero.
  const int mask = row.axes[k_].limits.empty() ? -1 : point_mask(registers, point);
  if (mask < 0) return value.reg;
  return registers.select({mask, shape_.pack}, value, registers.zero_like(value)).reg;
}

}  // namespace lw::lowering
