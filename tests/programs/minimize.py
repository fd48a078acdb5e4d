"""Makes a failing program smaller while it fails in the same way."""
import copy
from dataclasses import replace

import numpy as np

import values
from evaluate import Evaluator, Refused
from syntax import Tensor, number, reads, walk
from values import Value

MOST_TRIES = 80


def needed(program, names):
    """The tensors behind some, in order."""
    wanted = set(names)
    for tensor in reversed(list(program.tensors.values())):
        if tensor.name in wanted and tensor.expression is not None:
            wanted |= reads(tensor.expression)
    return {n: t for n, t in program.tensors.items() if n in wanted}


def rebuilt(draft, program):
    """A draft of the program with the same inputs, evaluated; None where it is not a program."""
    result = copy.copy(draft)
    result.program = program
    inputs = {t.name: draft.values[t.name] for t in program.inputs()}
    try:
        result.values = Evaluator(program, inputs).run()
    except (Refused, KeyError, ValueError, IndexError):
        return None
    return result


def with_tensors(draft, tensors):
    program = draft.program.copy()
    program.tensors = tensors
    return rebuilt(draft, program)


def fewer_outputs(draft):
    for kept in draft.program.outputs():
        if len(draft.program.outputs()) > 1:
            tensors = needed(draft.program, [kept.name])
            yield with_tensors(draft, {n: t if n == kept.name else replace(t, out=False)
                                       for n, t in tensors.items()})


def earlier_outputs(draft):
    """A definition on the way as the only result."""
    for tensor in draft.program.computed():
        if not tensor.out:
            tensors = needed(draft.program, [tensor.name])
            tensors[tensor.name] = replace(tensor, out=True)
            yield with_tensors(draft, tensors)


def given(draft):
    """A definition as an input that holds what it had."""
    for tensor in draft.program.computed():
        if tensor.out:
            continue
        result = copy.copy(draft)
        result.values = dict(draft.values)
        result.values[tensor.name] = Value(tensor.type, values.middle(draft.values[tensor.name]))
        tensors = dict(draft.program.tensors)
        tensors[tensor.name] = Tensor(tensor.name, tensor.type, tensor.shape)
        result.program = draft.program.copy()
        result.program.tensors = tensors
        result.program.tensors = needed(result.program, [t.name for t in draft.program.outputs()])
        yield rebuilt(result, result.program)


def replaced(node, at, by):
    if node is at:
        return by
    return replace(node, args=tuple(replaced(a, at, by) for a in node.args))


def simpler_nodes(node):
    """What may stand for it: an operand of its type, or a number beside a typed operand."""
    for arg in node.args:
        if arg.type == node.type and node.kind not in ("read", "reduce"):
            yield arg
    if node.kind == "reduce" and len(node.axes) > 1:
        for n in range(len(node.axes)):
            yield replace(node, axes=node.axes[:n] + node.axes[n + 1:])


def simpler_expressions(draft):
    for tensor in draft.program.computed():
        for node in walk(tensor.expression):
            if node.kind in ("number", "name", "axis", "read") or node.type is None:
                continue
            for by in simpler_nodes(node):
                expression = replaced(tensor.expression, node, by)
                tensors = {**draft.program.tensors,
                           tensor.name: replace(tensor, expression=expression)}
                program = draft.program.copy()
                program.tensors = tensors
                program.tensors = needed(program, [t.name for t in draft.program.outputs()])
                yield rebuilt(draft, program)


def fewer_words(draft):
    """Parameters as numbers, without lets, overrides and const."""
    program = draft.program.copy()
    plain = program.names()

    def literal(node):
        if node.kind == "name" and node.word in plain:
            return number(plain[node.word])
        return replace(node, args=tuple(map(literal, node.args)),
                       axes=tuple((n, literal(e)) for n, e in node.axes))

    program.tensors = {
        n: replace(t, shape=tuple(map(literal, t.shape)), const=False,
                   expression=t.expression and literal(t.expression))
        for n, t in program.tensors.items()}
    program.parameters, program.lets, program.overrides = {}, {}, {}
    yield rebuilt(draft, program)


def smaller_extents(draft):
    """A parameter or plain extent halved, everywhere, and the inputs cut."""
    sizes = {e.word for t in draft.program.tensors.values() for e in t.shape if e.kind == "number"}
    for size in sorted(sizes, reverse=True):
        for less in (max(1, size // 4), size // 2, size - 1):
            if 1 <= less < size:
                yield cut(draft, size, less)


def cut(draft, size, less):
    def shrunk(node):
        return number(less) if node.kind == "number" and node.word == size else node

    def inner(node):
        return replace(node, args=tuple(map(inner, node.args)),
                       axes=tuple((n, shrunk(e)) for n, e in node.axes))

    program = draft.program.copy()
    result = copy.copy(draft)
    result.values = dict(draft.values)
    for name, t in draft.program.tensors.items():
        program.tensors[name] = replace(t, shape=tuple(map(shrunk, t.shape)),
                                        expression=t.expression and inner(t.expression))
        if t.expression is None:
            window = tuple(slice(0, less) if e.kind == "number" and e.word == size else slice(None)
                           for e in t.shape)
            result.values[name] = Value(t.type, np.array(draft.values[name].lo[window]))
    return rebuilt(result, program)


PASSES = (fewer_outputs, earlier_outputs, fewer_words, given, simpler_expressions, smaller_extents)


def minimize(draft, fails):
    """fails(draft): whether it fails still in the same way."""
    tries, changed = 0, True
    while changed:
        changed = False
        for step in PASSES:
            again = True
            while again:
                again = False
                before = draft.program.text()
                for candidate in step(draft):
                    if candidate is None or candidate.program.text() == before:
                        continue
                    if not candidate.program.outputs():
                        continue
                    tries += 1
                    if tries > MOST_TRIES:
                        return draft
                    if fails(candidate):
                        draft, changed, again = candidate, True, True
                        break
    return draft
