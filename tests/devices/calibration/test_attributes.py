"""The driver's answers, as its binding gives them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from evolve.devices.calibration.attributes import read_attributes
from evolve.ir.errors import EvolveError

ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "CLOCK_RATE": 1980000,
    "MEMORY_CLOCK_RATE": 3201000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6016,
    "L2_CACHE_SIZE": 62914560,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
}


class Names:
    """An enumeration in which every attribute is its own name."""

    def __getattr__(self, name: str) -> str:
        return name.removeprefix("CU_DEVICE_ATTRIBUTE_")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A driver of one H200 in the place of cuda-bindings'."""

    def attribute(key: str, device: int) -> tuple[int, int]:
        return (0, ATTRIBUTES[key]) if key in ATTRIBUTES else (1, -1)

    found = SimpleNamespace(
        CUresult=SimpleNamespace(CUDA_SUCCESS=0),
        CUdevice_attribute=Names(),
        cuInit=lambda flags: (0,),
        cuDeviceGet=lambda ordinal: (0, ordinal) if ordinal == 0 else (101, None),
        cuDeviceGetName=lambda size, device: (0, b"NVIDIA H200\0".ljust(size)),
        cuDeviceTotalMem=lambda device: (0, 139 << 30),
        cuDriverGetVersion=lambda: (0, 13020),
        cuDeviceGetAttribute=attribute,
    )
    package: Any = ModuleType("cuda.bindings")
    package.driver = found
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    return found


def test_attributes_are_read(driver: SimpleNamespace) -> None:
    gpu = read_attributes(0)
    assert (gpu.name, gpu.arch, gpu.sms, gpu.clock_mhz) == ("NVIDIA H200", "sm_90", 132, 1980)
    assert gpu.dram_gbs == pytest.approx(4814, abs=1)
    assert gpu.memory_bytes == 139 << 30 and gpu.blocks_per_sm == 32
    assert (gpu.cuda, gpu.driver) == ("13.2", "")


def test_what_the_driver_does_not_know_is_zero(driver: SimpleNamespace) -> None:
    assert read_attributes(0).shared_reserved_per_block == 0


def test_a_device_that_is_not_there(driver: SimpleNamespace) -> None:
    with pytest.raises(EvolveError) as e:
        read_attributes(3)
    assert e.value.code == "no-cuda" and "101" in e.value.message


def test_a_machine_without_a_driver(driver: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(flags: int) -> None:
        raise RuntimeError("libcuda.so.1 is not there")

    monkeypatch.setattr(driver, "cuInit", fails)
    with pytest.raises(EvolveError) as e:
        read_attributes(0)
    assert "libcuda" in e.value.message
