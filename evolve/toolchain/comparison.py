"""One text compiled by NVRTC and by nvcc, and what each made of it: registers, memory, instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from evolve.toolchain.compilation import CompileResult
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.nvcc import compile_with_nvcc, find_nvcc
from evolve.toolchain.nvrtc import compile_cuda, nvrtc_version
from evolve.toolchain.sass import decode

CompilerName = Literal["nvrtc", "nvcc"]
COMPILERS: tuple[CompilerName, ...] = get_args(CompilerName)


@dataclass(frozen=True)
class KernelCost:
    """What a kernel costs as compiled, and how long its code is.

    `registers` and `local_bytes` (stack: spills and arrays that are not in registers) per thread,
    `shared_bytes` static, per block; `instructions` in the code that can be reached, each once, and
    `local_accesses` those of them that touch local memory.
    """

    name: str
    registers: int
    shared_bytes: int
    local_bytes: int
    instructions: int
    local_accesses: int

    @property
    def text(self) -> str:
        """In words."""
        return (
            f"{self.name}: {self.registers} registers, {self.shared_bytes} B shared, "
            f"{self.local_bytes} B local, {self.instructions} instructions "
            f"({self.local_accesses} to local memory)"
        )


@dataclass(frozen=True)
class Built:
    """A text as one compiler compiled it. `kernels` is empty when it does not compile; `result` says why."""

    compiler: CompilerName
    version: tuple[int, int]
    arch: str
    result: CompileResult
    kernels: tuple[KernelCost, ...]

    @property
    def label(self) -> str:
        """The compiler, its version and the target: `nvcc 13.0 for sm_90`."""
        return f"{self.compiler} {self.version[0]}.{self.version[1]} for {self.arch}"

    @property
    def lines(self) -> tuple[str, ...]:
        """In words: a line for each kernel, or for each error."""
        if self.result.ok:
            return tuple(f"{self.label}, {kernel.text}" for kernel in self.kernels)
        return tuple(
            f"{self.label}, {'' if one.line is None else f'line {one.line}: '}{one.message}"
            for one in self.result.errors
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON data, without the image."""
        return {
            "compiler": self.compiler,
            "version": list(self.version),
            "arch": self.arch,
            "ok": self.result.ok,
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "errors": [asdict(one) for one in self.result.errors],
        }


def build(text: str, arch: str, compiler: CompilerName, options: Sequence[str] = ()) -> Built:
    """Compiles by the one named and reads what came of it.

    Raises EvolveError as `compile_cuda` and `compile_with_nvcc` do, and as `decode` does.
    """
    if compiler == "nvcc":
        nvcc = find_nvcc()
        version, result = nvcc.version, compile_with_nvcc(text, arch, options, nvcc=nvcc)
    else:
        version, result = nvrtc_version(), compile_cuda(text, arch, options)
    return Built(compiler, version, arch, result, () if result.cubin is None else costs(result.cubin))


def both(text: str, arch: str, options: Sequence[str] = ()) -> tuple[Built, Built]:
    """NVRTC's and nvcc's. Raises EvolveError as `build`."""
    return build(text, arch, "nvrtc", options), build(text, arch, "nvcc", options)


def costs(cubin: bytes) -> tuple[KernelCost, ...]:
    """Of an image's kernels, by name. Raises EvolveError as `read_cubin` and `decode`."""
    image = read_cubin(cubin)
    (code,) = decode([image])
    return tuple(
        KernelCost(
            name=name,
            registers=kernel.registers,
            shared_bytes=kernel.shared_bytes,
            local_bytes=kernel.stack_bytes,
            instructions=int(code[name].mix.total + code[name].cold.total),
            local_accesses=code[name].spills,
        )
        for name, kernel in sorted(image.kernels.items())
    )
