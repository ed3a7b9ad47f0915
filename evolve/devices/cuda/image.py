"""Memory of an image that keeps its contents from one launch to the next.

With such memory a kernel can count its launches, or keep a result and copy it out when it is timed. The
buffers that a launch is given are restored, poisoned and compared; a module's own variables are not, so an
image with variables is loaded afresh for every launch (library functions bring tables of their own, which
look the same). What a fresh load does not undo is refused.

Clusters of blocks are refused too: what an SM holds of them is not what limits and estimates are about.
"""

from __future__ import annotations

import struct

from evolve.devices.cuda.faults import BadImageError
from evolve.toolchain.cubin import records
from evolve.toolchain.elf import Elf, open_elf

_MACHINE_CUDA = 190
_CLUSTER = (0x3D, 0x3E)
"""EIATTR_CTA_PER_CLUSTER and EIATTR_EXPLICIT_CLUSTER: the kernel is compiled for clusters."""
_VARIABLES = (".nv.global", ".nv.global.init")
_INFO = ".nv.info."
_CALLS = {
    "malloc": "a heap that outlives the launch",
    "free": "a heap that outlives the launch",
    "vprintf": "output",
    "cudaLaunchDevice": "launches from the device",
    "cudaLaunchDeviceV2": "launches from the device",
    "cudaGetParameterBuffer": "launches from the device",
    "cudaGetParameterBufferV2": "launches from the device",
}


def has_variables(image: bytes) -> bool:
    """Whether the image has device variables, initialised or not. Constant memory is none.

    Raises BadImageError when it is no image, asks for clusters, or calls what no candidate may: see `_CALLS`.
    """
    try:
        elf = open_elf(image, _MACHINE_CUDA)
        calls, clusters = _calls(elf), _clusters(elf)
    except (struct.error, UnicodeDecodeError, IndexError, ValueError) as e:
        raise BadImageError(f"this is not a readable image: {e}") from e
    if calls:
        raise BadImageError(f"it calls {calls[0]} ({_CALLS[calls[0]]})")
    if clusters:
        raise BadImageError(f"{clusters[0]} is compiled for clusters of thread blocks")
    return any(s.size for s in elf.sections if s.name in _VARIABLES)


def _clusters(elf: Elf) -> list[str]:
    """The kernels that are launched in clusters whatever the launch says."""
    own = [s for s in elf.sections if s.name.startswith(_INFO)]
    return [s.name.removeprefix(_INFO) for s in own if any(a in _CLUSTER for a, _ in records(elf, s))]


def _calls(elf: Elf) -> list[str]:
    # Defined nowhere in the image: a function of the user's that is called `free` is his own.
    return [s.name for s in elf.symbols() if s.name in _CALLS and s.section == 0]
