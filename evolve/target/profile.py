"""Hardware profiles: one GPU's peaks, limits, rates and measured ceilings.

A profile is a YAML file named by its stem, such as `h200-sxm`. Files are looked for in `$EVOLVE_HARDWARE`,
then in `./hardware`, in the user's own folder (`user_folder`, where `evolve calibrate` puts them), and among
those shipped; the first that has the stem wins, so a person can correct a figure or add a GPU without
touching the package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from evolve.ir.errors import EvolveError
from evolve.target.data import data_dir

_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Clocks:
    """MHz. `tensor_mhz` is the clock at which the listed tensor peaks hold; it may be below boost."""

    boost_mhz: float
    tensor_mhz: float


@dataclass(frozen=True)
class Peaks:
    """Data-sheet peaks, dense, in 1e12 per second, an FMA counting two. `tensor` has no entry for a type that
    the GPU's matrix units do not take."""

    fp32_tflops: float
    fp64_tflops: float
    tensor: Mapping[str, float] = field(hash=False)


@dataclass(frozen=True)
class Memory:
    """`dram_gbs` in 1e9 bytes per second; sizes in bytes.

    `shared_bytes_per_block` needs no opt-in, `shared_bytes_per_block_optin` is the most a block can have;
    `shared_reserved_per_block` is what the system takes per block; `shared_unit_bytes` the step in which
    shared memory is given out; `last_level_bytes` a cache behind L2. 0 or None where unknown or absent.
    """

    kind: str
    dram_gbs: float
    l2_bytes: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_per_block_optin: int
    shared_reserved_per_block: int
    shared_unit_bytes: int
    shared_banks: int
    l1_shared_bytes_per_sm: int | None
    constant_bytes: int | None
    last_level_bytes: int | None

    @property
    def dram_bytes_per_s(self) -> float:
        """Peak DRAM bandwidth in bytes per second."""
        return self.dram_gbs * 1e9


@dataclass(frozen=True)
class Limits:
    """What a launch may ask for. `register_unit` is the step, per warp, in which registers are given out.
    None where the vendor's figure is not known."""

    warp: int
    threads_per_block: int
    threads_per_sm: int
    blocks_per_sm: int | None
    registers_per_sm: int
    registers_per_block: int | None
    registers_per_thread: int | None
    register_unit: int | None
    schedulers: int


@dataclass(frozen=True)
class Rates:
    """Results per SM and clock: lanes of FMA (two operations each), additions, special functions, lanes
    shuffled or loaded, bytes of shared memory. `tensor_flop` counts operations. None where unknown."""

    fp32_fma: float
    fp64_fma: float
    mufu: float
    shared_bytes: float
    fp16_fma: float | None
    int_add: float | None
    imad: float | None
    shuffle_lanes: float | None
    load_store_lanes: float | None
    tensor_flop: Mapping[str, float] = field(hash=False)


@dataclass(frozen=True)
class Latency:
    """Load-to-use latencies without contention; None where unknown."""

    l1_clocks: float | None = None
    l2_clocks: float | None = None
    dram_ns: float | None = None
    shared_clocks: float | None = None


@dataclass(frozen=True)
class Measurement:
    """A measured ceiling: the range seen and where it comes from."""

    low: float
    high: float
    source: str

    @property
    def mid(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Measured:
    """Ceilings that someone measured on this GPU; None for what nobody did.

    `copy_16b_gbs`, `copy_4b_gbs`: device copy with 16- and 4-byte accesses, bytes read plus written, 1e9 per
    second; `read_gbs`, `write_gbs`, `triad_gbs` alike; `l2_read_gbs` what L2 holds, past L1; `shared_gbs`
    16-byte loads without conflicts; `fp32_tflops`, `fp64_tflops` chains of FMA; `int_add_gops`, `imad_gops`,
    `ex2_gops` 1e9 results per second; `fp16_mma_tflops` warp-level matrix multiply-adds with fp32 sums, which
    from compute capability 9.0 on are not the fastest; `launch_us` an empty kernel between two events.
    """

    copy_16b_gbs: Measurement | None = None
    copy_4b_gbs: Measurement | None = None
    read_gbs: Measurement | None = None
    write_gbs: Measurement | None = None
    triad_gbs: Measurement | None = None
    l2_read_gbs: Measurement | None = None
    shared_gbs: Measurement | None = None
    fp32_tflops: Measurement | None = None
    fp64_tflops: Measurement | None = None
    int_add_gops: Measurement | None = None
    imad_gops: Measurement | None = None
    ex2_gops: Measurement | None = None
    fp16_mma_tflops: Measurement | None = None
    launch_us: Measurement | None = None
    bf16_gemm_tflops: Measurement | None = None
    fp8_gemm_tflops: Measurement | None = None


@dataclass(frozen=True)
class Profile:
    """One GPU as a program sees it. `stem` is its file's name without `.yaml`; `arch` the compiler's target
    (`sm_90`, `gfx942`); `compute_capability` as (major, minor), None for AMD; `measured` None when nobody
    measured it, so that ceilings must be assumed from the peaks; `provenance` says where a calibrated
    profile's fields come from, by field or group of fields, and is empty for one written by hand. Of such a
    one `sources` says where what is neither the vendor's nor in `measured` comes from, likewise. `validated`
    is the file with what estimates for it were checked against, None where nobody checked any."""

    stem: str
    name: str
    vendor: Literal["nvidia", "amd"]
    arch: str
    compute_capability: tuple[int, int] | None
    sms: int
    clocks: Clocks
    peaks: Peaks
    memory: Memory
    limits: Limits
    rates: Rates
    latency: Latency
    measured: Measured | None
    provenance: Mapping[str, str] = field(default_factory=dict, hash=False)
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    validated: str | None = None

    @property
    def boost_hz(self) -> float:
        """SM clock at full boost, in Hz."""
        return self.clocks.boost_mhz * 1e6

    def per_second(self, rate: float) -> float:
        """A rate per SM and clock as a rate of the whole GPU per second, at the boost clock."""
        return rate * self.sms * self.boost_hz


def load_profile(stem: str) -> Profile:
    """The profile of that name.

    Raises EvolveError `unknown-profile` (with the known names), `bad-profile` for a file that cannot be read
    or does not say what a profile must, and `bad-hardware-folder` when `$EVOLVE_HARDWARE` names no folder.
    """
    from evolve.target.schema import read_profile

    if _STEM.fullmatch(stem):
        for folder in _folders():
            file = folder / f"{stem}.yaml"
            if file.is_file():
                return read_profile(file)
    raise EvolveError(
        "unknown-profile",
        f"there is no hardware profile {stem!r}; known are {', '.join(list_profiles())}",
        hint="put a YAML file of that name into ./hardware or the folder $EVOLVE_HARDWARE names",
    )


def list_profiles() -> list[str]:
    """The stems of all profiles that `load_profile` finds, sorted. Raises as it does for a bad folder."""
    return sorted({file.stem for folder in _folders() for file in folder.glob("*.yaml")})


def _folders() -> list[Path]:
    folders = []
    wanted = os.environ.get("EVOLVE_HARDWARE")
    if wanted:
        folder = Path(wanted)
        if not folder.is_dir():
            raise EvolveError(
                "bad-hardware-folder",
                f"$EVOLVE_HARDWARE is {wanted!r}, which is not a folder",
                hint="point it at a folder of profile YAML files, or unset it",
            )
        folders.append(folder)
    here = Path("hardware")
    if here.is_dir():
        folders.append(here)
    own = user_folder()
    if own is not None and own.is_dir():
        folders.append(own)
    folders.append(data_dir("hardware"))
    return folders


def user_folder() -> Path | None:
    """Where the user's own profiles lie: `$XDG_DATA_HOME/evolve/hardware`, by default under `~/.local/share`.

    None for a user without a home. The folder need not exist.
    """
    data = os.environ.get("XDG_DATA_HOME")
    if data and Path(data).is_absolute():
        return Path(data) / "evolve" / "hardware"
    home = os.path.expanduser("~")
    return Path(home) / ".local" / "share" / "evolve" / "hardware" if os.path.isabs(home) else None
