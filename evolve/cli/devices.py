"""`evolve devices`: what `--device` can be here."""

from __future__ import annotations

from typing import Any

from evolve.cli import options

_NVRTC_NEEDS = (7, 5)


def command(json: options.Json = False) -> int:
    """List what --device can be here.

    `sim:PROFILE` executes on the CPU and estimates times; `cuda` measures on a GPU.
    """
    from evolve.cli.output import Output
    from evolve.devices.grounds import grounds
    from evolve.target.profile import list_profiles, load_profile

    with Output(json) as output:
        found: list[dict[str, Any]] = []
        for stem in list_profiles():
            profile = load_profile(stem)
            capability = profile.compute_capability
            usable = capability is not None and capability >= _NVRTC_NEEDS
            found.append(
                {
                    "device": f"sim:{stem}",
                    "name": profile.name,
                    "timing": "estimated" if usable else None,
                    "usable": usable,
                    "note": "" if usable else "bounds only: not a target of NVRTC",
                    "rests_on": grounds(profile).short() if usable else "",
                }
            )
        found.append(_cuda())
        if output.as_json:
            output.document({"devices": found})
        width = max(len(one["device"]) for one in found)
        lines = [
            f"{one['device']:<{width}}  {one['name']}; {one['note'] or 'times are ' + str(one['timing'])}"
            + (f": {one['rests_on']}" if one.get("rests_on") else "")
            for one in found
        ]
        output.text("\n".join(lines))
        return 0


def _cuda() -> dict[str, Any]:
    """Asks a GPU worker for the first CUDA device."""
    from evolve.devices.cuda.client import CudaWorker
    from evolve.ir.errors import EvolveError

    try:
        worker = CudaWorker()
    except EvolveError as error:
        return {
            "device": "cuda",
            "name": "no usable GPU",
            "timing": None,
            "usable": False,
            "note": str(error),
        }
    try:
        return {"device": "cuda", "name": worker.info.name, "timing": "measured", "usable": True, "note": ""}
    finally:
        worker.close()
