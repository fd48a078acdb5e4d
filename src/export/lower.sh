#!/bin/sh
# Makes kernel.o of the payload.mlir, schedule.mlir and prelude.mlir beside it, with stock MLIR and LLVM
# 19. The object's functions take bare pointers to row-major memory: inputs, outputs, then what
# report.json names as packed, which NAME_prepack makes, of the same arguments. It needs a C library
# and, for exp and the like, -lm.
#   lower.sh [--unscheduled] [--cpu NAME] [--keep]
# --unscheduled: loops as the payload has them. --cpu: for which processor (default: this one).
# --keep: what lies between the steps stays, as kernel.*.
set -eu
cpu=native keep='' scheduled=1
while [ $# -gt 0 ]; do
  case $1 in
    --unscheduled) scheduled='' ;;
    --cpu) cpu=$2; shift ;;
    --keep) keep=1 ;;
    *) echo "lower.sh: what is $1?" >&2; exit 1 ;;
  esac
  shift
done
cd "$(dirname "$0")"

# 1. The schedule. A script that does not apply is an error here, never another kernel.
if [ -n "$scheduled" ]; then
  mlir-opt-19 payload.mlir -o kernel.scheduled.mlir \
    --transform-preload-library=transform-library-paths=schedule.mlir,prelude.mlir \
    --transform-interpreter
else
  cp payload.mlir kernel.scheduled.mlir
fi
# MLIR 19 takes a vector that is written at index 0 for all of a tensor whose first dimensions are no
# longer, however many more there are, and may drop what was written before. It asks for a constant:
# this 0 is none until tensors are memory.
sed -e '/^ *func\.func .*{$/a\
    %first = affine.apply affine_map<() -> (0)>()' \
  -e '/vector\.transfer_write .*, tensor</s/\[%c0\([],]\)/[%first\1/' \
  kernel.scheduled.mlir > kernel.tensors.mlir
# 2. Memory: results are written into the arguments, temporaries are allocated once, small ones on
# the stack. What fetches ahead becomes part of the loops.
mlir-opt-19 kernel.tensors.mlir -o kernel.memory.mlir \
  --transform-preload-library=transform-library-paths=prelude.mlir \
  --transform-interpreter=entry-point=loopwright_bufferize \
  --inline --symbol-dce --canonicalize --cse \
  --buffer-hoisting --buffer-loop-hoisting \
  --promote-buffers-to-stack=max-alloc-size-in-bytes=16384 --buffer-deallocation-pipeline
# 3. Loops, vectors and functions in LLVM's dialect; then LLVM.
mlir-opt-19 kernel.memory.mlir -o kernel.llvm.mlir \
  --fold-memref-alias-ops --convert-vector-to-scf="full-unroll target-rank=1" \
  --convert-linalg-to-loops --lower-affine --canonicalize --cse --expand-strided-metadata \
  --lower-affine --arith-expand --convert-scf-to-cf \
  --convert-func-to-llvm=use-bare-ptr-memref-call-conv=1 \
  --convert-vector-to-llvm=reassociate-fp-reductions --convert-math-to-llvm --convert-math-to-libm \
  --convert-func-to-llvm=use-bare-ptr-memref-call-conv=1 \
  --finalize-memref-to-llvm --convert-arith-to-llvm \
  --convert-index-to-llvm --convert-cf-to-llvm --reconcile-unrealized-casts --canonicalize --cse
mlir-translate-19 --mlir-to-llvmir kernel.llvm.mlir -o kernel.ll
opt-19 -O3 -mcpu="$cpu" kernel.ll -o kernel.bc
llc-19 -O3 -mcpu="$cpu" -filetype=obj -relocation-model=pic --fp-contract=fast kernel.bc -o kernel.o
[ -n "$keep" ] || rm -f kernel.scheduled.mlir kernel.tensors.mlir kernel.memory.mlir \
  kernel.llvm.mlir kernel.ll kernel.bc
