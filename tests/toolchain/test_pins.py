"""The CUDA packages that we ask for: ranges of one major version, from 13.0 on."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from evolve.toolchain.pycuda_install import HEADER_WHEELS

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def cuda_requirements() -> dict[str, Requirement]:
    """Everything that NVIDIA numbers by CUDA version, of the dependencies and of each extra."""
    extras = PROJECT["optional-dependencies"].values()
    asked = map(Requirement, [*PROJECT["dependencies"], *(one for extra in extras for one in extra)])
    return {one.name: one for one in asked if one.name.startswith(("nvidia-", "cuda-"))}


def test_there_are_some() -> None:
    assert {"cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm"} <= set(cuda_requirements())


@pytest.mark.parametrize("name", sorted(cuda_requirements()))
def test_each_pin_is_a_range_with_cuda_13_0(name: str) -> None:
    allowed = cuda_requirements()[name].specifier
    assert {one.operator for one in allowed} == {">=", "<"}, allowed
    for version in ("13.0", "13.0.0", "13.0.48", "13.0.88", "13.1.5", "13.9"):
        assert version in allowed
    # Machine code of a newer major version does not load on this one's drivers.
    for version in ("12.9", "14.0", "14.1"):
        assert version not in allowed


@pytest.mark.parametrize("wheel", HEADER_WHEELS)
def test_headers_are_those_of_cuda_13_0(wheel: str) -> None:
    allowed = Requirement(wheel).specifier
    assert "13.0.48" in allowed and "13.0.96" in allowed
    assert "12.9.79" not in allowed and "13.1.0" not in allowed


def test_any_pycuda_since_cuda_13_will_do() -> None:
    (pycuda,) = map(Requirement, PROJECT["optional-dependencies"]["cuda"])
    assert pycuda.name == "pycuda"
    assert {one.operator for one in pycuda.specifier} == {">="}
