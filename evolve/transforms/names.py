"""Name resolution: what the names in a program mean, loops, groups of loops, buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.kernel import Kernel
from evolve.transforms.edit import buffers_of, sites
from evolve.transforms.once import once


@dataclass(frozen=True)
class NameTable:
    """Names that a program gave beyond those that loops and buffers carry themselves.

    groups  a name for several loops, in their order
    gone    loops that no longer exist, and what became of them
    """

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    gone: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def with_group(self, name: str, loops: Iterable[str]) -> NameTable:
        """With `name` standing for `loops`."""
        return replace(self, groups=MappingProxyType({**self.groups, name: tuple(loops)}))

    def without_loop(self, loop: str, became: str) -> NameTable:
        """After `loop` was replaced."""
        return self.without_loops((loop,), became)

    def without_loops(self, loops: Iterable[str], became: str) -> NameTable:
        """After these were replaced."""
        return replace(self, gone=MappingProxyType({**self.gone, **dict.fromkeys(loops, became)}))


def find_loops(kernel: Kernel, names: NameTable, name: str) -> tuple[str, ...]:
    """The loops that `name` stands for. Raises RefusedError E-NAME."""
    loops = sites(kernel)
    if name in loops:
        return (name,)
    if name in names.groups:
        for loop in names.groups[name]:
            if loop not in loops:
                became = names.gone.get(loop, "removed")
                raise RefusedError("E-NAME", f"loop {loop} of group {name} no longer exists: it was {became}")
        return names.groups[name]
    if name in names.gone:
        raise RefusedError("E-NAME", f"loop {name} no longer exists: it was {names.gone[name]}")
    close = get_close_matches(name, [*loops, *names.groups], n=1)
    repair = f"did you mean {close[0]}?" if close else f"loops: {', '.join(loops)}"
    raise RefusedError("E-NAME", f"there is no loop {name}", repair=repair)


def taken_names(kernel: Kernel) -> set[str]:
    """Names that loops, buffers and parameters carry."""
    return set(once(kernel, "names", lambda: {*kernel.params, *sites(kernel), *buffers_of(kernel)}))


def claim(kernel: Kernel, name: str) -> str:
    """`name`, if a result may carry it. Raises RefusedError E-NAME."""
    if name in taken_names(kernel):
        raise RefusedError(
            "E-NAME",
            f"the name {name} is already a loop, a buffer or a parameter",
            repair="give the result another name",
        )
    return name
