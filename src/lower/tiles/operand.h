// What an item has in registers of a factor of matrices, as products of those take it
// (schedules/targets/matrix_shape.h). Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/targets/matrix_shape.h"
#include "src/lower/tiles/rows.h"

namespace lw::lowering {

// Of one operand: what an item reads of the tile's matrices, each register once.
class Operand {
 public:
  // `side`: 0 of a, whose rows run along m; 1 of b, whose columns run along n.
  Operand(Frame& f, const MatrixShape& shape, const Expr& factor, int side);

  // The registers from row or column `at` of the tile and from `step` along k on, of two eights of
  // rows or columns, where there are `eights` of them: for each part of k its eights'.
  std::vector<int> parts(int64_t at, int64_t step, int eights);

 private:
  Row moved(Row row, int64_t at, int64_t step) const;
  // The same by rows of 16 bytes that items read for each other, along k or `across` it. Nothing
  // where the operand does not lie so in memory that they share.
  std::vector<int> from_rows(int64_t at, int64_t step, bool across);
  // Whether, besides numbers, it is a load of a whole row that the group shares.
  bool is_row(const std::vector<Stmt>& made, int reg) const;
  int part_of(int64_t at, int64_t step);

  Frame& f_;
  const MatrixShape& shape_;
  const Expr factor_;
  const Type type_;
  const int axis_, k_;
  Evaluator evaluator_, rows_[2];
  Row tile_, start_;                       // its first point; the item's first
  bool elsewhere_[2] = {false, false};     // no rows are found along k, across it
};

}  // namespace lw::lowering
