"""Programs of the tensor language as values, and their text.

An expression is a Node. Its type is one of TYPES, or None for a literal (numbers, parameters, lets
and expressions of these alone). Constructors give nodes their types, by the rules of the language.
"""
from dataclasses import dataclass, field, replace

FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8", "u8")
TYPES = FLOATS + INTEGERS + ("bool",)
ACCUMULATOR = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32", "i16": "i32"}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
PRECEDENCE = {"||": 1, "&&": 2, **{op: 3 for op in COMPARISONS},
              "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
UNARY, ATOM = 6, 7


@dataclass(frozen=True)
class Node:
    """kind: number, name, axis, read, pad, border, binary, unary, call, where, cast, reduce.

    word is the operator, function, name or value; axes those of a reduction: (name, extent)."""
    kind: str
    type: str
    word: object
    args: tuple = ()
    axes: tuple = ()

    def __add__(self, other):
        return binary("+", self, lift(other))

    def __radd__(self, other):
        return binary("+", lift(other), self)

    def __sub__(self, other):
        return binary("-", self, lift(other))

    def __rsub__(self, other):
        return binary("-", lift(other), self)

    def __mul__(self, other):
        return binary("*", self, lift(other))

    def __rmul__(self, other):
        return binary("*", lift(other), self)

    def __truediv__(self, other):
        return binary("/", self, lift(other))

    def __rtruediv__(self, other):
        return binary("/", lift(other), self)

    def __mod__(self, other):
        return binary("%", self, lift(other))

    def __neg__(self):
        return Node("unary", self.type, "-", (self,))


def lift(x):
    return x if isinstance(x, Node) else number(x)


def number(value):
    return Node("number", None, value)


def name(text):
    return Node("name", None, text)


def axis(text):
    return Node("axis", "i32", text)


def binary(op, a, b):
    a, b = lift(a), lift(b)
    type = a.type or b.type
    return Node("binary", "bool" if op in COMPARISONS and type else type, op, (a, b))


def not_(a):
    return Node("unary", "bool", "!", (a,))


def call(function, *args):
    args = tuple(lift(a) for a in args)
    return Node("call", next((a.type for a in args if a.type), None), function, args)


def where(condition, a, b):
    a, b = lift(a), lift(b)
    return Node("where", a.type or b.type, "where", (condition, a, b))


def cast(type, a):
    return Node("cast", type, type, (a,))


def pad(read, value):
    return Node("pad", read.type, "pad", (read, lift(value)))


def border(read, way):
    """way: edge, reflect or wrap."""
    return Node("border", read.type, way, (read,))


def reduce(op, axes, body):
    """axes: ((name, extent), ...)."""
    type = ACCUMULATOR.get(body.type, body.type) if op in ("sum", "prod") else body.type
    return Node("reduce", type, op, (body,), tuple((n, lift(e)) for n, e in axes))


@dataclass(frozen=True)
class Tensor:
    """An input, or a computed one where expression is not None; shape: literals."""
    name: str
    type: str
    shape: tuple
    const: bool = False
    axes: tuple = ()                       # names, of a computed tensor
    expression: Node = None
    out: bool = False

    def __getitem__(self, indices):
        indices = indices if isinstance(indices, tuple) else (indices,)
        assert len(indices) == len(self.shape), (self.name, indices)
        return Node("read", self.type, self.name, tuple(lift(i) for i in indices))


@dataclass
class Program:
    parameters: dict = field(default_factory=dict)   # name: default
    lets: dict = field(default_factory=dict)         # name: literal
    tensors: dict = field(default_factory=dict)      # name: Tensor, in order of definition
    overrides: dict = field(default_factory=dict)    # parameters as given at the call

    def copy(self):
        return replace(self, parameters=dict(self.parameters), lets=dict(self.lets),
                       tensors=dict(self.tensors), overrides=dict(self.overrides))

    def inputs(self):
        return [t for t in self.tensors.values() if t.expression is None]

    def computed(self):
        return [t for t in self.tensors.values() if t.expression is not None]

    def outputs(self):
        return [t for t in self.tensors.values() if t.out]

    def names(self):
        """The values of parameters and lets."""
        values = {**self.parameters, **self.overrides}
        for let, literal in self.lets.items():
            values[let] = fold(literal, values, integer=True)
        return values

    def text(self, op="drawn"):
        lines = [f"op {op}(" + ", ".join(f"{n} = {v}" for n, v in self.parameters.items()) + ") {"]
        lines += [f"  let {n} = {show(e)}" for n, e in self.lets.items()]
        for t in self.tensors.values():
            if t.expression is None:
                shape = ", ".join(map(show, t.shape))
                lines.append(f"  in {t.name}: {t.type}[{shape}]" + (" const" if t.const else ""))
            else:
                axes = ", ".join(f"{a}: {show(e)}" for a, e in zip(t.axes, t.shape))
                lines.append(f"  {'out ' if t.out else ''}{t.name}[{axes}] = {show(t.expression)}")
        return "\n".join(lines + ["}", ""])

    def words(self):
        return [f"{n}={v}" for n, v in self.overrides.items()]


def fold(literal, names, integer):
    """A literal's value: an integer in an index, an extent or a let; else f64."""
    if literal.kind == "number":
        return literal.word
    if literal.kind == "name":
        return names[literal.word]
    args = [fold(a, names, integer) for a in literal.args]
    if literal.kind == "unary":
        return -args[0]
    if literal.kind == "call":
        return {"sqrt": lambda x: x ** 0.5, "max": max, "min": min}[literal.word](*args)
    a, b = args
    if literal.word == "/":
        return a // b if integer else a / b
    if literal.word == "%":
        return a % b
    return {"+": a + b, "-": a - b, "*": a * b}[literal.word]


def show_number(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def show(node, least=0):
    text, level = render(node)
    return f"({text})" if level < least else text


def render(node):
    if node.kind == "number":
        text = show_number(node.word)
        return text, UNARY if text.startswith("-") else ATOM
    if node.kind in ("name", "axis"):
        return node.word, ATOM
    if node.kind == "read":
        return f"{node.word}[{', '.join(map(show, node.args))}]", ATOM
    if node.kind == "binary":
        level = PRECEDENCE[node.word]
        left = level + 1 if level == 3 else level
        a, b = node.args
        right = show(b, level + 1)
        if right.startswith("-"):
            right = f"({right})"
        return f"{show(a, left)} {node.word} {right}", level
    if node.kind == "unary":
        inner = show(node.args[0], UNARY)
        return node.word + (f"({inner})" if inner.startswith("-") else inner), UNARY
    if node.kind == "cast":
        return f"cast({node.word}, {show(node.args[0])})", ATOM
    if node.kind == "border":
        return f"pad({show(node.args[0])}, {node.word})", ATOM
    if node.kind == "reduce":
        axes = ", ".join(f"{a}: {show(e)}" for a, e in node.axes)
        return f"{node.word}[{axes}]({show(node.args[0])})", ATOM
    return f"{node.word}({', '.join(map(show, node.args))})", ATOM


def walk(node):
    yield node
    for arg in node.args:
        yield from walk(arg)


def reads(node):
    return {n.word for n in walk(node) if n.kind == "read"}
