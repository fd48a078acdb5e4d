"""Random expressions of a given type over given axes."""
from syntax import (COMPARISONS, FLOATS, INTEGERS, axis, binary, border, call, cast, lift, name,
                    not_, number, pad, reduce, where)
from values import is_float


class Expressions:
    """axes: [(name, extent literal)]; tensors: what may be read."""

    def __init__(self, draft, axes, new_inputs=0.3):
        self.draft, self.axes, self.new_inputs = draft, list(axes), new_inputs
        self.chance, self.pick = draft.chance, draft.pick
        self.inner = 0                     # reductions around

    def extent_of(self, name):
        return next(e for n, e in self.axes if n == name)

    def number(self, type):
        if type == "bool":
            return number(self.chance(0.5))
        if not is_float(type):
            return number(self.pick((0, 1, 2, 3, 5, 7)) if type == "u8" or self.chance(0.7)
                          else self.pick((-1, -3, 6, 100)))
        names = [n for n, v in self.draft.program.names().items() if 0 < v <= 20]
        if names and self.chance(0.15):
            return binary("/", number(1), name(self.pick(names)))
        return number(self.pick((0, 1, 2, 0.5, -1, 0.25, 1.5, 0.1, -0.75, 3, 1e-3, 0.3333)))

    # Reads.
    def leaf(self, type):
        tensors = [t for t in self.draft.program.tensors.values() if t.type == type]
        if type == "i32" and self.axes and self.chance(0.15):
            return axis(self.pick(self.axes)[0])
        if self.chance(0.12) and type != "bool":
            return None                    # a literal, where the other operand gives the type
        if tensors and not self.chance(self.new_inputs):
            return self.read(self.pick(tensors))
        mixed = [t for t in self.draft.program.tensors.values() if t.type != "bool"]
        if mixed and self.chance(0.2) and type != "bool":
            tensor = self.pick(mixed)
            return cast(type, self.read(tensor)) if tensor.type != type else self.read(tensor)
        chosen = [e for e in self.axes if self.chance(0.75)] or self.axes[-1:]
        if len(chosen) > 5:
            chosen = chosen[-5:]
        if self.chance(0.25):
            self.draft.random.shuffle(chosen)
        tensor = self.draft.input(type, [e for _, e in chosen])
        return tensor[tuple(axis(n) for n, _ in chosen)]

    def read(self, tensor):
        """At indices that stay inside, or protected."""
        indices, guards = [], []
        used = set()
        for extent in tensor.shape:
            index, guard = self.index(extent, used)
            indices.append(index)
            guards += guard
        node = tensor[tuple(indices)]
        if not guards:
            return node
        other = self.number(tensor.type)
        if is_float(tensor.type) and self.chance(0.2):
            other = number(0.0)
        if self.chance(0.3):
            return border(node, self.pick(("edge", "reflect", "wrap")))
        if self.chance(0.6):
            return pad(node, other)
        condition = guards[0]
        for guard in guards[1:]:
            condition = binary("&&", condition, guard)
        return where(condition, node, other)

    def index(self, extent, used):
        size = self.draft.size(extent)
        same = [n for n, e in self.axes if self.draft.size(e) == size and n not in used]
        way = self.draft.random.random()
        if same and way < 0.72:
            chosen = self.pick(same)
            used.add(chosen)
            if self.chance(0.06):
                return lift(extent) - 1 - axis(chosen), []
            return axis(chosen), []
        if not self.axes or size == 1 or way < 0.76:
            return number(self.draft.random.randrange(size)), []
        chosen = self.pick(self.axes)[0]
        used.add(chosen)
        span, a = self.draft.size(self.extent_of(chosen)), axis(chosen)
        options = [(a % size, False)]
        for factor in (1, 2, 3):
            room = size - ((span - 1) * factor + 1)
            if room >= 0:
                base = a if factor == 1 else a * factor
                options.append((base + self.draft.random.randint(0, room), False))
        if span <= size * 2:
            options.append((a / 2, (span - 1) // 2 >= size))
        if span <= size:
            options += [(a + self.pick((1, 2)), True), (a - self.pick((1, 2)), True)]
        options.append(((a + self.pick((1, 2, 5))) % size, False))
        options.append((call("clamp", a - 2, number(0), lift(extent) - 1), False))
        options.append((call("min", a + 1, lift(extent) - 1), False))
        index, outside = self.pick(options)
        if not outside:
            return index, []
        return index, [binary(">=", index, number(0)),
                       binary("<", index, lift(extent))]

    # Conditions.
    def condition(self, depth):
        way = self.draft.random.random()
        if way < 0.3 and self.axes:
            a = axis(self.pick(self.axes)[0])
            b = axis(self.pick(self.axes)[0]) if self.chance(0.6) else number(self.pick((1, 3, 4)))
            if self.chance(0.3):
                return binary(self.pick(("==", "!=")), a % self.pick((2, 3)), number(0))
            return binary(self.pick(COMPARISONS), a, b + self.pick((0, 1)) if self.chance(0.3) else b)
        if way < 0.42 and depth > 0:
            return binary(self.pick(("&&", "||")), self.condition(depth - 1),
                          self.condition(depth - 1))
        if way < 0.48:
            return not_(self.condition(depth - 1))
        if way < 0.53:
            return self.leaf("bool")
        if way < 0.57:
            return cast("bool", self.leaf("i32") or self.typed("i32", 0))
        # Narrow integers only as they are read: in a sum's body their type is open.
        type = self.draft.type()
        plain = not is_float(type) and self.inner > 0
        a = self.leaf(type) if plain else self.typed(type, min(depth - 1, 1))
        while a is None or a.type is None:
            a = self.leaf(type)
        b = self.number(type) if self.chance(0.6) else self.leaf(type) or self.number(type)
        return binary(self.pick(("<", "<=", ">", ">=") if is_float(type) else COMPARISONS), a, b)

    # Expressions.
    def typed(self, type, depth):
        """One that has the type, not a literal."""
        while True:
            node = self.expression(type, depth)
            if node is not None and node.type == type:
                return node

    def operand(self, type, depth):
        node = self.expression(type, depth)
        return self.number(type) if node is None else node

    def expression(self, type, depth):
        if depth <= 0 or self.chance(0.1):
            return self.leaf(type)
        if type == "bool":
            return self.condition(depth - 1)
        way = self.draft.random.random()
        if way < 0.08:
            return where(self.condition(depth - 1), self.typed(type, depth - 1),
                         self.operand(type, depth - 1))
        if way < 0.16:
            return self.converted(type, depth)
        if way < 0.24 and self.inner < 2:
            return self.reduction(type, depth)
        if is_float(type):
            return self.float_node(type, depth)
        return self.integer_node(type, depth)

    def converted(self, type, depth):
        others = [t for t in FLOATS + INTEGERS if t != type]
        inner = self.typed(self.draft.type(others), depth - 1)
        return cast(type, inner)

    def reduction(self, type, depth):
        """Of a body whose result has the type."""
        ops = {"f16": ("max", "min"), "bf16": ("max", "min"), "i8": ("max", "min"),
               "u8": ("max", "min"), "i16": ("max", "min")}.get(type, ("sum", "max", "min", "prod"))
        op = self.pick(ops)
        count = 1 if self.chance(0.7) else 2
        letters = [x for x in "abcdefgh" if x not in {n for n, _ in self.axes}]
        axes = [(letters[n], self.draft.extent(5 if op == "prod" else 13)) for n in range(count)]
        body_type = type
        if op in ("sum", "prod") and type in ("f32", "i32") and self.chance(0.25):
            body_type = self.pick(("f16", "bf16") if type == "f32" else ("i8", "u8", "i16"))
        outer = self.axes
        self.axes, self.inner = outer + axes, self.inner + 1
        try:
            body = self.typed(body_type, depth - 1)
        finally:
            self.axes, self.inner = outer, self.inner - 1
        node = reduce(op, axes, body)
        if op == "sum" and is_float(type) and self.chance(0.5):
            node = node / lift(axes[0][1])
        return node

    def float_node(self, type, depth):
        way = self.draft.random.random()
        a = self.typed(type, depth - 1)
        if way < 0.5:
            b = self.operand(type, depth - 1)
            op = self.pick("++--**/")
            if op == "/":
                b = call("abs", b) + self.pick((0.5, 1, 2)) if not self.draft.edge else b
                if b.type is None:
                    b = number(self.pick((2, 3, 0.7)))
            return binary(op, a, b) if self.chance(0.85) or b.type is None else binary(op, b, a)
        if way < 0.6:
            return call(self.pick(("max", "min")), a, self.operand(type, depth - 1))
        if way < 0.64:
            return call("clamp", a, number(-1), number(self.pick((1, 2, 0.5))))
        if way < 0.68:
            return -a if self.chance(0.5) else call("abs", a)
        if way < 0.73:
            return call(self.pick(("floor", "ceil", "round")), a * self.pick((1.7, 3.3, 0.9)))
        return self.function(type, a)

    def function(self, type, a):
        f = self.pick(("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "pow"))
        if f in ("tanh", "erf", "sigmoid"):
            return call(f, a)
        if self.draft.edge and self.chance(0.5) and f != "pow":
            return call(f, a)
        if f == "exp":
            return call(f, self.pick((-call("abs", a), call("min", a, number(2)), a * 0.25)))
        positive = call("abs", a) + self.pick((0.5, 0.1, 1))
        if f == "pow":
            if self.chance(0.3):
                return call(f, a, number(self.pick((2, 3))))
            return call(f, positive, number(self.pick((0.5, 1.5, -1, 2.5, 0.333))))
        return call(f, positive)

    def integer_node(self, type, depth):
        way = self.draft.random.random()
        a = self.typed(type, depth - 1)
        if way < 0.65:
            b = self.operand(type, depth - 1)
            if b.type is None and b.word == 0:
                b = number(3)
            return binary(self.pick("++--**/%"), a, b)
        if way < 0.8:
            return call(self.pick(("max", "min")), a, self.operand(type, depth - 1))
        if way < 0.88:
            return call("clamp", a, number(0), number(self.pick((5, 50))))
        return -a if self.chance(0.5) else call("abs", a)
