"""The file format of hardware profiles: checks a YAML file and turns it into a `Profile`, and back.

Kept apart from `profile` because it imports pydantic and yaml, which a command that needs no profile should
not wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evolve.ir.errors import EvolveError
from evolve.target.profile import (
    Clocks,
    Latency,
    Limits,
    Measured,
    Measurement,
    Memory,
    Peaks,
    Profile,
    Rates,
)

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(gt=0, strict=True)]
_Size = Annotated[int, Field(ge=0, strict=True)]

_MOST_BYTES = 1_000_000


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Clocks(_Model):
    boost_mhz: _Positive
    tensor_mhz: _Positive


class _Peaks(_Model):
    fp32_tflops: _Positive
    fp64_tflops: _Positive
    fp32_tensor_tflops: _Positive | None = None
    fp64_tensor_tflops: _Positive | None = None
    tf32_tensor_tflops: _Positive | None = None
    fp16_tensor_tflops: _Positive | None = None
    bf16_tensor_tflops: _Positive | None = None
    fp8_tensor_tflops: _Positive | None = None
    int8_tensor_tops: _Positive | None = None


class _Memory(_Model):
    kind: str
    dram_gbs: _Positive
    l2_bytes: _Count
    shared_bytes_per_sm: _Count
    shared_bytes_per_block: _Count
    shared_bytes_per_block_optin: _Count
    shared_reserved_per_block: _Size = 0
    shared_unit_bytes: _Count = 1
    shared_banks: _Count
    l1_shared_bytes_per_sm: _Count | None = None
    constant_bytes: _Count | None = None
    last_level_bytes: _Count | None = None


class _Limits(_Model):
    warp: _Count
    threads_per_block: _Count
    threads_per_sm: _Count
    blocks_per_sm: _Count | None = None
    registers_per_sm: _Count
    registers_per_block: _Count | None = None
    registers_per_thread: _Count | None = None
    register_unit: _Count | None = None
    schedulers: _Count


class _Tensor(_Model):
    fp32: _Positive | None = None
    fp64: _Positive | None = None
    tf32: _Positive | None = None
    fp16: _Positive | None = None
    bf16: _Positive | None = None
    fp8: _Positive | None = None
    int8: _Positive | None = None


class _Rates(_Model):
    fp32_fma: _Positive
    fp64_fma: _Positive
    mufu: _Positive
    shared_bytes: _Positive
    fp16_fma: _Positive | None = None
    int_add: _Positive | None = None
    imad: _Positive | None = None
    shuffle_lanes: _Positive | None = None
    load_store_lanes: _Positive | None = None
    tensor_flop: _Tensor = _Tensor()


class _Latency(_Model):
    l1_clocks: _Positive | None = None
    l2_clocks: _Positive | None = None
    dram_ns: _Positive | None = None
    shared_clocks: _Positive | None = None


class _Measurement(_Model):
    low: _Positive
    high: _Positive
    source: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _ordered(self) -> _Measurement:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class _Measured(_Model):
    copy_16b_gbs: _Measurement | None = None
    copy_4b_gbs: _Measurement | None = None
    read_gbs: _Measurement | None = None
    write_gbs: _Measurement | None = None
    triad_gbs: _Measurement | None = None
    l2_read_gbs: _Measurement | None = None
    shared_gbs: _Measurement | None = None
    fp32_tflops: _Measurement | None = None
    fp64_tflops: _Measurement | None = None
    int_add_gops: _Measurement | None = None
    imad_gops: _Measurement | None = None
    ex2_gops: _Measurement | None = None
    fp16_mma_tflops: _Measurement | None = None
    launch_us: _Measurement | None = None
    bf16_gemm_tflops: _Measurement | None = None
    fp8_gemm_tflops: _Measurement | None = None


class _File(_Model):
    name: Annotated[str, Field(min_length=1)]
    vendor: Literal["nvidia", "amd"]
    arch: Annotated[str, Field(pattern=r"^(sm_\d{2,3}|gfx[0-9a-f]{3,5})$")]
    compute_capability: Annotated[str, Field(pattern=r"^\d{1,2}\.\d$")] | None = None
    sms: _Count
    clocks: _Clocks
    peaks: _Peaks
    memory: _Memory
    limits: _Limits
    rates: _Rates
    latency: _Latency = _Latency()
    measured: _Measured | None = None
    provenance: dict[str, str] = Field(default_factory=dict, max_length=100)
    sources: dict[str, str] = Field(default_factory=dict, max_length=100)
    validated: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> _File:
        if self.vendor == "nvidia":
            needed = ("blocks_per_sm", "registers_per_block", "registers_per_thread", "register_unit")
            missing = [name for name in needed if getattr(self.limits, name) is None]
            if missing:
                raise ValueError(f"an NVIDIA profile needs limits.{missing[0]}")
            capability = (self.compute_capability or "").replace(".", "")
            if self.arch != f"sm_{capability}":
                raise ValueError(
                    f"arch {self.arch} does not fit compute_capability {self.compute_capability}"
                )
        return self


def read_profile(file: Path) -> Profile:
    """Reads one profile file. Raises EvolveError `bad-profile` with the file and the field at fault."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise _bad(file, f"it is larger than {_MOST_BYTES} bytes")
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(file, f"it cannot be read: {error}") from error
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise _bad(file, f"it is not YAML: {getattr(error, 'problem', None) or error}", line) from error
    if not isinstance(data, dict):
        raise _bad(file, "it holds no mapping of fields")
    try:
        return _to_profile(file.stem, _File.model_validate(data))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        more = error.error_count() - 1
        tail = f" (and {more} more)" if more else ""
        raise _bad(file, f"{where + ': ' if where else ''}{first['msg']}{tail}") from error


def _bad(file: Path, why: str, line: int | None = None) -> EvolveError:
    return EvolveError(
        "bad-profile", f"this hardware profile cannot be used: {why}", file=str(file), line=line
    )


def _to_profile(stem: str, data: _File) -> Profile:
    capability = None
    if data.compute_capability is not None:
        major, minor = data.compute_capability.split(".")
        capability = (int(major), int(minor))
    tensor = {
        name.removesuffix("_tensor_tflops").removesuffix("_tensor_tops"): value
        for name, value in data.peaks.model_dump(exclude_none=True).items()
        if "_tensor_" in name
    }
    rates: dict[str, Any] = data.rates.model_dump()
    rates["tensor_flop"] = data.rates.tensor_flop.model_dump(exclude_none=True)
    return Profile(
        stem=stem,
        name=data.name,
        vendor=data.vendor,
        arch=data.arch,
        compute_capability=capability,
        sms=data.sms,
        clocks=Clocks(**data.clocks.model_dump()),
        peaks=Peaks(data.peaks.fp32_tflops, data.peaks.fp64_tflops, tensor),
        memory=Memory(**data.memory.model_dump()),
        limits=Limits(**data.limits.model_dump()),
        rates=Rates(**rates),
        latency=Latency(**data.latency.model_dump()),
        measured=None if data.measured is None else _to_measured(data.measured),
        provenance=data.provenance,
        sources=data.sources,
        validated=data.validated,
    )


def _to_measured(data: _Measured) -> Measured:
    found = data.model_dump(exclude_none=True)
    return Measured(**{name: Measurement(**values) for name, values in found.items()})


def as_document(profile: Profile) -> dict[str, Any]:
    """The mapping that `read_profile` makes this profile of; fields that are None or empty are left out.

    Raises pydantic's ValidationError when the profile is not one that a file may hold.
    """
    data = asdict(profile)
    del data["stem"]
    capability = profile.compute_capability
    data["compute_capability"] = None if capability is None else "{}.{}".format(*capability)
    tensor = data["peaks"].pop("tensor")
    data["peaks"] |= {
        f"{name}_tensor_{'tops' if name.startswith('int') else 'tflops'}": value
        for name, value in tensor.items()
    }
    document: dict[str, Any] = _pruned(data)
    _File.model_validate(document)
    return document


def _pruned(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    kept = {name: _pruned(inner) for name, inner in value.items()}
    return {name: inner for name, inner in kept.items() if inner is not None and inner != {}}
