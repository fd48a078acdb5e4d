// What turns scheduled linalg operations into vectors, whatever the schedule: a library for
// mlir-opt's --transform-preload-library beside a schedule of ours. MLIR 19.
module attributes {transform.with_named_sequence} {

// Simplifies what tiling leaves behind: bounds, slices and loops, but no operation. (A copy, which
// canonicalization takes for nothing, is to become vectors as all others.)
transform.named_sequence @loopwright_simplify(%f: !transform.any_op {transform.readonly}) {
  transform.apply_patterns to %f {
    transform.apply_patterns.linalg.tiling_canonicalization
    transform.apply_patterns.scf.for_loop_canonicalization
  } : !transform.any_op
  transform.apply_cse to %f : !transform.any_op
  transform.yield
}

// Last iterations that are less than a tile become code of their own, of constant extents. Inner
// loops come first: those of an outer loop's last iteration are then copies with bounds of their own.
transform.named_sequence @loopwright_peel(%f: !transform.any_op {transform.readonly}) {
  %loops = transform.structured.match ops{["scf.for"]} attributes{loopwright.peel} in %f
      : (!transform.any_op) -> !transform.any_op
  transform.foreach %loops : !transform.any_op {
  ^bb0(%loop: !transform.any_op):
    %for = transform.cast %loop : !transform.any_op to !transform.op<"scf.for">
    %whole, %rest = transform.loop.peel %for
        : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
  }
  transform.include @loopwright_simplify failures(propagate) (%f) : (!transform.any_op) -> ()
  transform.yield
}

// Every operation is a row by now: axes of one point go, what remains becomes vectors, but for what
// cannot. Vectors are then read and written where their slices lie. MLIR 19's patterns for that take a
// vector for all of the slice that it is written to, which is so in loops over rows alone: after a
// peeled loop they would forget all but the rest. So they are applied to these loops, and to no
// function (nor its children be vectorized, which applies them too).
transform.named_sequence @loopwright_vectorize(%f: !transform.any_op {transform.readonly}) {
  transform.apply_patterns to %f {
    transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices
  } : !transform.any_op
  transform.include @loopwright_simplify failures(propagate) (%f) : (!transform.any_op) -> ()
  %rows = transform.structured.match interface{LinalgOp} in %f
      : (!transform.any_op) -> !transform.any_op
  transform.foreach %rows : !transform.any_op {
  ^bb0(%row: !transform.any_op):
    transform.sequence %row : !transform.any_op failures(suppress) {
    ^bb1(%operation: !transform.any_op):
      transform.structured.vectorize %operation : !transform.any_op
    }
  }
  %loops = transform.structured.match ops{["scf.for"]} attributes{loopwright.rows} in %f
      : (!transform.any_op) -> !transform.any_op
  transform.apply_patterns to %loops {
    transform.apply_patterns.tensor.fold_tensor_subset_ops_into_vector_transfers
  } : !transform.any_op
  transform.apply_cse to %f : !transform.any_op
  transform.yield
}

// Takes what each loop reads first and writes last, a slice or a vector, through its iterations.
transform.named_sequence @loopwright_hoist_subsets(%f: !transform.any_op {transform.readonly}) {
  %loops = transform.structured.match ops{["scf.for"]} in %f
      : (!transform.any_op) -> !transform.op<"scf.for">
  transform.foreach %loops : !transform.op<"scf.for"> {
  ^bb0(%loop: !transform.op<"scf.for">):
    transform.loop.hoist_loop_invariant_subsets %loop : !transform.op<"scf.for">
  }
  transform.apply_patterns to %f {
    transform.apply_patterns.canonicalization
  } : !transform.any_op
  transform.apply_cse to %f : !transform.any_op
  transform.yield
}

// After loops over rows were unrolled: what a reduction accumulates stays in registers.
transform.named_sequence @loopwright_hoist(%f: !transform.any_op {transform.readonly}) {
  transform.apply_patterns to %f {
    transform.apply_patterns.canonicalization
  } : !transform.any_op
  transform.apply_cse to %f : !transform.any_op
  transform.include @loopwright_hoist_subsets failures(propagate) (%f) : (!transform.any_op) -> ()
  transform.include @loopwright_hoist_subsets failures(propagate) (%f) : (!transform.any_op) -> ()
  transform.include @loopwright_hoist_subsets failures(propagate) (%f) : (!transform.any_op) -> ()
  transform.apply_patterns to %f {
    transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = "innerreduction"
    transform.apply_patterns.vector.transfer_permutation_patterns
    transform.apply_patterns.canonicalization
  } : !transform.any_op
  transform.apply_cse to %f : !transform.any_op
  transform.yield
}

// An entry point of its own: tensors become memory. Results are made where they belong, and what must
// be copied all the same is loops, not a call of a runtime library.
transform.named_sequence @loopwright_bufferize(%module: !transform.any_op {transform.consumed}) {
  transform.bufferization.eliminate_empty_tensors %module : !transform.any_op
  %empty = transform.structured.match ops{["tensor.empty"]} in %module
      : (!transform.any_op) -> !transform.op<"tensor.empty">
  transform.foreach %empty : !transform.op<"tensor.empty"> {
  ^bb0(%one: !transform.op<"tensor.empty">):
    %memory = transform.bufferization.empty_tensor_to_alloc_tensor %one
        : (!transform.op<"tensor.empty">) -> !transform.op<"bufferization.alloc_tensor">
  }
  %done = transform.bufferization.one_shot_bufferize layout{IdentityLayoutMap} %module
      {bufferize_function_boundaries = true, memcpy_op = "linalg.copy"}
      : (!transform.any_op) -> !transform.any_op
  transform.yield
}

}
