#!/usr/bin/env python3
"""Shows that the evaluator accepts what plain kernels answer, and sees the mistakes of wrong ones."""
import argparse
import random
import sys
from collections import Counter
from dataclasses import replace

import numpy as np

import plain
import values
from evaluate import Refused
from generate import generate
from minimize import replaced
from syntax import FLOATS, number, walk
from values import Value

LEAST_CAUGHT = 0.97                        # of mistakes that change a result at all
SWAPS = {"+": "-", "-": "+", "*": "+", "/": "*", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
         "==": "!=", "&&": "||", "max": "min", "min": "max", "floor": "ceil", "ceil": "floor",
         "sum": "max", "prod": "sum", "tanh": "erf", "sigmoid": "tanh", "exp": "tanh",
         "round": "floor", "%": "/"}


def mistakes(node, names):
    """(what, the node with a mistake)."""
    if node.kind in ("binary", "call", "reduce") and node.word in SWAPS and node.type is not None:
        yield f"{node.word} for {SWAPS[node.word]}", replace(node, word=SWAPS[node.word])
    if node.kind == "reduce":
        axis, extent = node.axes[-1]
        size = names[extent.word] if extent.kind == "name" else extent.word
        if extent.kind in ("number", "name") and size > 1:
            yield "the last term left out", replace(
                node, axes=node.axes[:-1] + ((axis, number(size - 1)),))
    if node.kind == "pad":
        yield "other padding", replace(node, args=(node.args[0], number(7)))
    if node.kind == "where":
        yield "sides exchanged", replace(node, args=(node.args[0], node.args[2], node.args[1]))
    if node.kind == "cast" and node.args[0].type in FLOATS and node.type not in FLOATS:
        yield "a cast less a half", replace(node, args=(node.args[0] - 0.5,))
    if node.kind == "read" and node.args:
        for n, index in enumerate(node.args):
            if index.kind == "axis":
                moved = node.args[:n] + (index + 1,) + node.args[n + 1:]
                yield "an index too far", replace(node, args=moved)


def mutants(program, rng):
    """Programs with one mistake."""
    names = program.names()
    found = []
    for tensor in program.computed():
        for node in walk(tensor.expression):
            for what, wrong in mistakes(node, names):
                found.append((tensor, node, what, wrong))
    for tensor, node, what, wrong in rng.sample(found, min(4, len(found))):
        mutant = program.copy()
        mutant.tensors[tensor.name] = replace(
            tensor, expression=replaced(tensor.expression, node, wrong))
        yield what, mutant


def accepted(draft, results):
    """The name of an output that is not, or ""."""
    for t in draft.program.outputs():
        got = results[t.name].lo
        if got.shape != draft.values[t.name].lo.shape:
            return t.name
        if not values.accepts(draft.values[t.name], got).all():
            return t.name
    return ""


def check_arithmetic():
    """A few values that the language's page states."""
    one = lambda type, x: Value(type, np.asarray(x, np.float64 if type in FLOATS else np.int64))
    whole = [
        ("+", "i8", 127, 1, -128), ("*", "i16", 300, 300, 24464), ("/", "i32", -7, 2, -4),
        ("%", "i32", -7, 2, 1), ("/", "i32", 5, 0, 0), ("%", "i64", 5, 0, 0),
        ("/", "i8", -128, -1, -128), ("-", "u8", 3, 5, 254), ("*", "i64", 2 ** 62, 4, 0),
        ("%", "i32", 7, -3, -2)]
    for op, type, a, b, want in whole:
        got = values.arithmetic(op, type, one(type, a), one(type, b))
        assert got.exact() and got.lo == want, (op, type, a, b, got.lo)
    casts = [("f32", 300.7, "u8", 255), ("f32", -1.5, "u8", 0), ("f64", 1e30, "i64", 2 ** 63 - 1),
             ("f32", -1.9, "i32", -1), ("i32", 300, "i8", 44), ("i32", -1, "u8", 255),
             ("f32", -1e30, "i16", -32768)]
    for source, x, target, want in casts:
        got = values.cast(target, one(source, x))
        assert got.exact() and got.lo == want, (source, x, target, got.lo)
    sure = values.cast("i32", plain_nan())
    assert sure.exact() and sure.lo == 0
    assert values.nearest("bf16", 1 + 2.0 ** -8) == 1 and values.nearest("bf16", 3.4e38) == np.inf


def plain_nan():
    import functions
    return functions.call("sqrt", "f32", [Value("f32", np.asarray(-1.0))])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    check_arithmetic()
    failed, caught, missed = 0, Counter(), Counter()
    for seed in range(args.seed, args.seed + args.count):
        draft = generate(seed)
        inputs = {t.name: draft.values[t.name] for t in draft.program.inputs()}
        right = plain.compute(draft.program, inputs)
        wrong = accepted(draft, right)
        if wrong:
            failed += 1
            print(f"seed {seed}: a plain kernel's {wrong} is refused\n" + draft.program.text())
            continue
        for what, mutant in mutants(draft.program, random.Random(seed)):
            try:
                results = plain.compute(mutant, inputs)
            except (Refused, ValueError):
                continue
            if all(np.array_equal(results[t.name].lo, right[t.name].lo, equal_nan=True)
                   for t in draft.program.outputs()):
                continue                   # no mistake after all: max for min of one term
            seen = accepted(draft, results)
            (caught if seen else missed)[what] += 1
    total = sum(caught.values()) + sum(missed.values())
    share = sum(caught.values()) / total
    print(f"{args.count} programs, {failed} wrongly refused; {total} mistakes, {share:.1%} caught")
    print("missed: " + ", ".join(f"{what} {n} of {n + caught[what]}"
                                 for what, n in missed.most_common()))
    sys.exit(1 if failed or share < LEAST_CAUGHT else 0)


if __name__ == "__main__":
    main()
