"""Random kernels of the kind people write: one thread a row, loops, scalars, conditions, helper calls.

Every kernel has parameters (x, w, y, z, n, m, flag, a): x and y are n x m, w has m elements, z has n.
"""

from __future__ import annotations

from random import Random

HELPERS = """
#define AT(p, r, c) ((p)[(r) * m + (c)])
__device__ float bounded(float v) { if (v > 2.f) return 2.f; if (v < -2.f) return -2.f; return v; }
__device__ float mix(float u, float v) { float t = u * 0.5f; t += v; return t > u ? t - v : t; }
__device__ float tail(const float *p, int k) {
  float s = 0.f; for (int i = 0; i < k; i++) s += p[i]; return s;}
"""


class Writer:
    """Writes one kernel. `floats` and `ints` are the scalars in scope."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.count = 0
        self.lines: list[str] = []
        self.floats: list[str] = []
        self.loops: list[str] = []

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def load(self) -> str:
        if self.loops and self.rng.random() < 0.8:
            c = self.rng.choice(self.loops)
            return self.pick(
                f"x[r * m + {c}]", f"AT(x, r, {c})", f"w[{c}]", f"y[r * m + {c}]", f"row[{c}]",
                f"row[{c} + 1 < m ? {c} + 1 : 0]", f"({c} == 0 ? a : row[{c} - 1])",
                f"w[{c} > 0 ? {c} - 1 : m - 1]",
            )  # fmt: skip
        return self.pick("z[r]", "x[r * m]", "AT(x, r, m - 1)", "w[0]", "*row")

    def index(self) -> str:
        options = ["r", "n - r", "m"]
        if self.loops:
            c = self.rng.choice(self.loops)
            options += [c, f"{c} + 1", f"{c} % 3", f"r * 2 + {c}", f"{c} / 2"]
        return self.rng.choice(options)

    def value(self, depth: int = 0) -> str:
        roll = self.rng.random()
        if depth > 2 or roll < 0.35:
            scalars = [*self.floats, "a"] if self.floats else ["a"]
            return self.rng.choice([*scalars, self.load(), self.pick("0.5f", "1.f", "-2.f", "3")])
        a, b = self.value(depth + 1), self.value(depth + 1)
        if roll < 0.75:
            return f"({a} {self.pick('+', '-', '*')} {b})"
        if roll < 0.8:
            return f"({self.index()}) * {a}"
        if roll < 0.86:
            return f"({self.condition()} ? {a} : {b})"
        if roll < 0.95:
            return self.pick(f"fmaxf({a}, {b})", f"bounded({a})", f"mix({a}, {b})", f"fabsf({a})", f"-({a})")
        return self.pick(f"tail(x + r * m, m) * {a}", f"fminf({a}, {b})")

    def condition(self) -> str:
        if self.rng.random() < 0.3:
            return f"{self.value(2)} {self.pick('<', '>', '<=')} {self.value(2)}"
        left = f"{self.index()} {self.pick('<', '>', '<=', '==', '!=')} {self.pick('2', 'n - 1', 'm', '3')}"
        return left if self.rng.random() < 0.7 else f"{left} {self.pick('&&', '||')} flag > 0"

    def assign(self, indent: str) -> None:
        e = self.value()
        if self.floats and self.rng.random() < 0.75:
            v = self.rng.choice(self.floats)
            self.lines.append(indent + self.pick(
                f"{v} += {e};", f"{v} = {v} + {e};", f"{v} = {e};", f"{v} = fmaxf({v}, {e});",
                f"if ({e} > {v}) {v} = {e};", f"{v} -= {e};", f"{v} = {self.pick('0.5f', 'a')} * {v} + {e};",
            ))  # fmt: skip
        elif self.loops:
            c = self.rng.choice(self.loops)
            op = self.pick("=", "=", "+=")
            self.lines.append(f"{indent}y[r * m + {c}] {op} {e};")
        else:
            self.lines.append(f"{indent}z[r] = {e};")

    def statement(self, indent: str, depth: int) -> None:
        roll = self.rng.random()
        if roll < 0.25:
            v = self.fresh("v")
            self.lines.append(f"{indent}float {v} = {self.value()};")
            self.floats.append(v)
        elif roll < 0.6 or depth > 2:
            self.assign(indent)
        elif roll < 0.75:
            self.branch(indent, depth)
        else:
            self.loop(indent, depth)

    def block(self, indent: str, depth: int, least: int = 1) -> None:
        floats = list(self.floats)
        for _ in range(self.rng.randint(least, 3)):
            self.statement(indent, depth)
        self.floats = floats

    def branch(self, indent: str, depth: int) -> None:
        self.lines.append(f"{indent}if ({self.condition()}) {{")
        self.block(indent + "  ", depth + 1)
        if self.rng.random() < 0.4:
            self.lines.append(indent + "} else {")
            self.block(indent + "  ", depth + 1)
        self.lines.append(indent + "}")

    def loop(self, indent: str, depth: int) -> None:
        c = self.fresh("c")
        head = self.pick(
            f"int {c} = 0; {c} < m; ++{c}", f"int {c} = m - 1; {c} >= 0; {c}--",
            f"int {c} = 1; {c} < m; {c} += 2",
            f"int {c} = 0; {c} <= m - 1; {c}++", f"unsigned {c} = 0; {c} < (unsigned)m; ++{c}",
        )  # fmt: skip
        self.lines.append(f"{indent}for ({head}) {{")
        self.loops.append(c)
        if self.rng.random() < 0.15:
            self.lines.append(f"{indent}  if ({c} % 3 == 1) continue;")
        self.block(indent + "  ", depth + 1)
        self.loops.pop()
        self.lines.append(indent + "}")

    def kernel(self, name: str) -> str:
        index = self.pick(
            "int r = blockIdx.x * blockDim.x + threadIdx.x;",
            "size_t r = blockIdx.x * blockDim.x + threadIdx.x;",
            "const int b = blockIdx.x * blockDim.x;\n  int r = b + threadIdx.x;",
        )  # fmt: skip
        early = self.rng.random() < 0.5
        self.lines = [f"  {index}", "  if (r >= n) return;" if early else "  if (r < n) {"]
        self.lines.append("  const float *row = x + r * m;")
        self.block("  ", 0, least=3)
        self.lines.append(f"  z[r] = {self.value()};")
        if not early:
            self.lines.append("  }")
        arrays = "const float *x, const float *w, float *y, float *z"
        head = f"__global__ void {name}({arrays}, int n, int m, int flag, float a)"
        return "\n".join([head + " {", *self.lines, "}", ""])


def text(seed: int, count: int) -> tuple[str, list[str]]:
    """A file of `count` kernels and their names."""
    names = [f"k{seed}_{i}" for i in range(count)]
    return HELPERS + "\n".join(Writer(seed * 1000 + i).kernel(n) for i, n in enumerate(names)), names
