"""References on the device that no kernel reaches: mapped while they are compared with, and given back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evolve.devices.cuda.hidden import Hidden, HidingError
from tests.devices.cuda.fake_cuda import BrokenError, FakeCuda

LOW = np.arange(5000, dtype=np.float32)


def test_it_has_an_address_only_while_somebody_looks() -> None:
    gpu = FakeCuda({})
    hidden = Hidden(gpu.driver, 0, LOW)
    hidden.upload(gpu, LOW, LOW + 1)
    with hidden.mapped() as (low, high):
        assert np.array_equal(gpu.view(low, LOW.nbytes).view(np.float32), LOW)
        assert np.array_equal(gpu.view(high, LOW.nbytes).view(np.float32), LOW + 1)
    for at in (low, high):
        with pytest.raises(BrokenError):
            gpu.view(at, 4)


def test_nothing_is_left_when_it_is_freed_or_does_not_fit() -> None:
    gpu = FakeCuda({}, memory=1 << 16)
    hidden = Hidden(gpu.driver, 0, LOW)
    assert gpu.used >= 2 * LOW.nbytes
    with pytest.raises(HidingError, match="cuMemCreate"):
        Hidden(gpu.driver, 0, LOW)
    hidden.free()
    assert gpu.used == 0 and not gpu.blocks


def test_what_was_in_it_is_overwritten_when_it_is_freed() -> None:
    gpu = FakeCuda({})
    hidden = Hidden(gpu.driver, 0, LOW)
    hidden.upload(gpu, LOW, LOW + 1)
    (memory,) = gpu.driver.hidden.values()
    hidden.free()
    assert len(np.unique(memory)) == 1


class Queued(FakeCuda):
    """Copies from the host arrive when somebody waits for them."""

    def __init__(self) -> None:
        super().__init__({})
        self.queue: list[tuple[int, Any]] = []

    def memcpy_htod(self, at: int, source: Any) -> None:
        self.queue.append((at, source))

    def synchronize(self) -> None:
        while self.queue:
            super().memcpy_htod(*self.queue.pop(0))


def test_an_upload_has_arrived_when_its_address_goes() -> None:
    gpu = Queued()
    hidden = Hidden(gpu.driver, 0, LOW)
    hidden.upload(gpu, LOW, LOW + 1)
    with hidden.mapped() as (low, _):
        assert np.array_equal(gpu.view(low, LOW.nbytes).view(np.float32), LOW)


def test_a_driver_that_cannot_is_told() -> None:
    with pytest.raises(HidingError, match="cannot hide"):
        Hidden(object(), 0, LOW)
