"""Compiles prepared device text into a shared object, with a content-addressed cache."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evolve.devices.sim.elf import runs_at_load, undefined_symbols
from evolve.devices.sim.source import HostSource, SharedDecl, prepare
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler

NATIVE = Path(__file__).parent / "native"
_COMPILE_TIMEOUT_S = 180.0

_COMMON = [
    "-std=gnu++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-w",
]
# The fidelity of the access trace depends on these (DESIGN section 6): gcc's scalar replacement would
# split vector accesses, clang leaves wide ones unhooked above -O0 and would merge a read into a write.
_INSTRUMENTED = {
    "gcc": "-O1 -fno-tree-sra -fwrapv -fno-strict-aliasing -ffp-contract=off -ftrivial-auto-var-init=pattern "
    "-fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -g1",
    "clang": "-O0 -mllvm -tsan-instrument-read-before-write=1 "
    "-mllvm -tsan-instrument-func-entry-exit=0 -fwrapv "
    "-fno-strict-aliasing -ffp-contract=off -ftrivial-auto-var-init=pattern -fsanitize=thread -g1",
}
_PLAIN = dict.fromkeys(("gcc", "clang"), "-O2 -fwrapv -fno-strict-aliasing -ffp-contract=off -g1")
_RUNTIME = {
    "gcc": "-O2 -ffreestanding -fno-builtin -fno-tree-loop-distribute-patterns",
    "clang": "-O2 -ffreestanding -fno-builtin",
}
_ZIG_EXTRA = ["-fno-sanitize=undefined"]


@dataclass(frozen=True)
class HostProgram:
    """A shared object with one launcher for each entry. `shared` names its shared-memory arrays."""

    path: Path
    entries: tuple[str, ...]
    shared: tuple[SharedDecl, ...]
    instrumented: bool
    compiler: str


def default_cache_dir() -> Path:
    """`$XDG_CACHE_HOME/evolve`, `~/.cache/evolve`, or a per-user temporary folder; created, private."""
    bases = [os.environ.get("XDG_CACHE_HOME"), os.path.join(os.path.expanduser("~"), ".cache")]
    for base in bases:
        if base and os.path.isabs(base):
            folder = Path(base) / "evolve" / "host"
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError:
                continue
            if os.access(folder, os.W_OK):
                return folder
    folder = Path(tempfile.gettempdir()) / f"evolve-host-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise EvolveError("sim.cache", f"{folder} belongs to someone else", hint="set XDG_CACHE_HOME")
    return folder


def compile_host(
    text: str,
    entries: Iterable[str],
    cache_dir: Path | None = None,
    *,
    compiler: HostCompiler | None = None,
    name: str = "kernel.cu",
    instrumented: bool = True,
    verify: bool = True,
) -> HostProgram:
    """Compile the kernels `entries` of CUDA `text` for host execution.

    Parameter types come from the text itself; a launch converts its scalars to them. `name` is what the
    text is called in messages. With `instrumented=False` the code runs at full speed without any check
    (`run_plain`). `verify` first makes sure that the compiler passes the conformance file (once for each
    compiler and cache). Raises EvolveError: `sim.conformance` when it does not, `sim.compile` (the
    compiler's first error, with its line), the codes of `source.prepare`, `sim.symbol` when the text calls
    something outside the device library, `no-host-compiler` and `bad-cxx` when there is no compiler.
    """
    cxx = compiler or find_host_compiler()
    names = tuple(entries)
    source = prepare(text, names)
    folder = cache_dir or default_cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    if verify and instrumented:
        from evolve.devices.sim.conformance import require  # it builds a program too

        require(cxx, folder)
    unit = _unit(source, names, name)
    flags = _flags(cxx, _INSTRUMENTED if instrumented else _PLAIN)
    key = _digest("program", _identity(cxx), _native_digest(), " ".join(flags), unit)
    target = folder / f"{key}.so"
    if not target.is_file():
        runtime = _runtime_object(cxx, folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as scratch:
            work = Path(scratch)
            (work / "unit.cpp").write_text(unit, encoding="utf-8")
            _call(cxx, [*cxx.command, *flags, "-c", "unit.cpp", "-o", "unit.o"], work, folder, name)
            _check_symbols(work / "unit.o", name, int(instrumented))  # the sanitizer's own
            link = [*cxx.link_command, "-shared", "-nostdlib", "-g", "unit.o", str(runtime), "-o", "out.so"]
            if cxx.kind == "gcc":
                link.append("-lgcc")
            _call(cxx, link, work, folder, name)
            os.replace(work / "out.so", target)
    return HostProgram(target, names, source.shared, instrumented, f"{cxx.kind} {cxx.version}")


def _unit(source: HostSource, names: tuple[str, ...], name: str) -> str:
    shown = name.replace("\\", "/").replace('"', "'")
    launchers = "\n".join(f"EV_LAUNCHER({n})" for n in names)
    return f'#include "cuda_host.h"\n#line 1 "{shown}"\n{source.text}\n#line 1 "launchers"\n{launchers}\n'


def _flags(cxx: HostCompiler, table: dict[str, str]) -> list[str]:
    kind = "gcc" if cxx.kind == "gcc" else "clang"
    extra = _ZIG_EXTRA if cxx.kind == "zig" else []
    return [*_COMMON, *table[kind].split(), *extra, "-I", str(NATIVE)]


def identity(cxx: HostCompiler) -> str:
    """Names the compiler, its flags and the native sources: what a conformance verdict holds for."""
    return _digest(_identity(cxx), _native_digest(), " ".join(_flags(cxx, _INSTRUMENTED)))


def _identity(cxx: HostCompiler) -> str:
    return f"{cxx.kind} {cxx.version} {' '.join(cxx.command)}"


@functools.cache
def _native_digest() -> str:
    return _digest(*(p.name + p.read_text(encoding="utf-8") for p in sorted(NATIVE.iterdir()) if p.is_file()))


def _digest(*parts: str) -> str:
    h = hashlib.sha256()
    for part in parts:
        h.update(part.encode())
        h.update(b"\0")
    return h.hexdigest()[:32]


def _runtime_object(cxx: HostCompiler, folder: Path) -> Path:
    flags = _flags(cxx, _RUNTIME)
    target = folder / f"runtime-{_digest(_identity(cxx), _native_digest(), ' '.join(flags))}.o"
    if not target.is_file():
        with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as scratch:
            work = Path(scratch)
            args = [*cxx.command, *flags, "-c", str(NATIVE / "runtime.cpp"), "-o", "runtime.o"]
            _call(cxx, args, work, folder, "runtime.cpp")
            os.replace(work / "runtime.o", target)
    return target


def _call(cxx: HostCompiler, args: list[str], work: Path, folder: Path, name: str) -> None:
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")}
    env["LC_ALL"] = "C"
    if cxx.kind == "zig":
        env["ZIG_GLOBAL_CACHE_DIR"] = env["ZIG_LOCAL_CACHE_DIR"] = str(folder / "zig")
    try:
        done = subprocess.run(
            args, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_COMPILE_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise EvolveError(
            "sim.compile", f"{args[0]} took more than {_COMPILE_TIMEOUT_S:.0f} s on {name}"
        ) from None
    except OSError as error:
        raise EvolveError("sim.compile", f"cannot run {args[0]}: {error.strerror}") from None
    if done.returncode == 0:
        return
    shown = name.replace("\\", "/").replace('"', "'")
    found = re.search(rf"^{re.escape(shown)}:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", done.stderr, re.M)
    if found:
        raise EvolveError(
            "sim.compile", f"the host compiler says: {found.group(2)}", file=name, line=int(found.group(1))
        )
    first = next((ln for ln in done.stderr.splitlines() if "error" in ln), done.stderr[:300])
    raise EvolveError("sim.compile", f"the host compiler failed on {name}: {first.strip()}")


_LIBRARY = re.compile(
    r"^(ev_\w+|__tsan_\w+|_GLOBAL_OFFSET_TABLE_|mem(cpy|set|move)|threadIdx|blockIdx|blockDim|gridDim"
    r"|__popcountdi2|__clzdi2|__ffsdi2|__(u?div|u?mod|mul)ti3)$"
)


@functools.cache
def _math_names() -> frozenset[str]:
    header = (NATIVE / "cuda_host.h").read_text(encoding="utf-8")
    block = header[header.index('extern "C" {') : header.index("#define EV_MATH1")]
    # The optimiser turns pairs of sin and cos, and pow with a base of 2 or 10, into these.
    return frozenset(re.findall(r"(\w+)\(", block)) | {"sincosf", "sincos"}


def _check_symbols(path: Path, name: str, allowed_early: int) -> None:
    """Device text may call the device library and nothing else of the host, and run nothing when loaded."""
    data = path.read_bytes()
    early = runs_at_load(data)
    if len(early) > allowed_early:
        raise EvolveError(
            "sim.static", f"{name} would run code when it is loaded ({early[-1]})", file=name,
            hint="give global variables constant initialisers",
        )  # fmt: skip
    for symbol in undefined_symbols(data):
        if not _LIBRARY.match(symbol) and symbol not in _math_names():
            raise EvolveError(
                "sim.symbol", f"{name} calls {symbol!r}, which is not part of the device library", file=name,
                hint="device code may use the CUDA built-ins and the C math functions",
            )  # fmt: skip
