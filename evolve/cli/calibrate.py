"""`evolve calibrate`: measures a GPU and writes its hardware profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evolve.cli import options

if TYPE_CHECKING:
    from evolve.devices.calibration.attributes import Attributes
    from evolve.devices.calibration.documented import Documented
    from evolve.devices.calibration.figures import Figure
    from evolve.target.profile import Profile

Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="cuda, or cuda:N for GPU N.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Where to write; default: your own folder of profiles."),
]


def command(device: Device = "cuda", out: Out = None, json: options.Json = False) -> int:
    """Measure a GPU and write its hardware profile.

    Bandwidths, instruction rates, latencies, launch time, in under a minute. `--device cuda` then uses the
    profile. A figure that cannot be right is shown and not written. Exit status 1 if no profile comes of it.
    """
    from dataclasses import asdict
    from time import monotonic

    from evolve.cli.output import Output, note
    from evolve.devices.calibration.attributes import read_attributes
    from evolve.devices.calibration.documented import documented
    from evolve.devices.calibration.figures import work_out
    from evolve.devices.calibration.take import take
    from evolve.devices.cuda.client import CudaWorker
    from evolve.ir.errors import EvolveError
    from evolve.target.match import match_profile
    from evolve.target.profile import list_profiles, load_profile

    with Output(json) as output:
        ordinal = _ordinal(device)
        began = monotonic()
        gpu = read_attributes(ordinal)
        listed = [p for p in map(load_profile, list_profiles()) if not p.provenance]
        try:
            base = match_profile(gpu.name, gpu.sms, calibrated=False)
        except EvolveError:
            base = None
        known = documented(gpu.compute_capability, listed, base)
        worker = CudaWorker(ordinal)
        try:
            samples = take(worker, gpu, lambda text: note(f"measuring {text}"))
        finally:
            worker.close()
        rates = dict(known.rates)
        if "fp16" in known.tensor_flop:
            rates["tensor_fp16"] = known.tensor_flop["fp16"]
        figures = work_out(samples, gpu, rates)
        profile, refused = _describe(gpu, figures, known, base)
        file = None if profile is None else _write(profile, out)
        if output.as_json:
            output.document(
                {
                    "gpu": asdict(gpu),
                    "figures": [_shown(f) for f in figures],
                    "faults": dict(samples.faults),
                    "profile": None if file is None else str(file),
                    "refused": refused,
                    "seconds": round(monotonic() - began, 1),
                }
            )
        lines = table(gpu, figures)
        lines += [f"{name}: not measured: {why}" for name, why in samples.faults.items()]
        lines.append(_ending(file, refused, own=out is None))
        output.text("\n".join(lines))
        return 1 if file is None else 0


def _ordinal(device: str) -> int:
    from evolve.ir.errors import EvolveError

    kind, _, number = device.partition(":")
    if kind != "cuda" or (number and not (number.isascii() and number.isdigit())):
        raise EvolveError("unknown-device", f"{device!r} cannot be calibrated", hint="cuda or cuda:N")
    return int(number or "0")


def _describe(
    gpu: Attributes, figures: Sequence[Figure], known: Documented, base: Profile | None
) -> tuple[Profile | None, str]:
    """The profile, or why there is none."""
    from datetime import UTC, datetime

    from evolve.devices.calibration.describe import describe
    from evolve.ir.errors import EvolveError
    from evolve.runs.version import tool_version
    from evolve.toolchain.nvrtc import nvrtc_version

    driver = f"driver {gpu.driver}, " if gpu.driver else ""
    taken = (
        f"evolve {tool_version()} calibrate on one {gpu.name}, {driver}CUDA {gpu.cuda}, "
        f"NVRTC {'.'.join(map(str, nvrtc_version()))}, {datetime.now(UTC):%Y-%m-%d}"
    )
    try:
        return describe(gpu, figures, known, base, taken), ""
    except EvolveError as error:
        return None, str(error)


def _write(profile: Profile, out: Path | None) -> Path:
    import yaml

    from evolve.ir.errors import EvolveError
    from evolve.target.profile import user_folder
    from evolve.target.schema import as_document

    file = out
    if file is None:
        folder = user_folder()
        if folder is None:
            raise EvolveError("cannot-write", "you have no home folder", hint="name a file with --out")
        file = folder / f"{profile.stem}.yaml"
    text = (
        f"# {profile.name}, written by `evolve calibrate`; provenance says where each field comes from.\n\n"
    )
    text += yaml.safe_dump(as_document(profile), sort_keys=False, width=110)
    try:
        if out is None:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as cause:
        raise EvolveError("cannot-write", f"cannot write: {cause.strerror}", file=str(file)) from cause
    return file


def _ending(file: Path | None, refused: str, *, own: bool) -> str:
    if file is None:
        return f"no profile was written: {refused}"
    if own:
        return f"wrote {file}: --device cuda uses it on this GPU from now on"
    return f"wrote {file}: --device cuda uses it when its folder is ./hardware or $EVOLVE_HARDWARE"


def _shown(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "low": figure.low,
        "high": figure.high,
        "kernel": figure.kernel,
        "per_sm_clock": figure.per_clock,
        "clock_mhz": figure.clock_mhz,
        "most": figure.most,
        "fraction": figure.fraction,
        "doubt": figure.doubt or None,
    }


def table(gpu: Attributes, figures: Sequence[Figure]) -> list[str]:
    """The figures for a person: the range, its share of what the GPU could do, the rate per SM and clock."""
    lines = [
        f"{gpu.name}: {gpu.sms} SMs at {gpu.clock_mhz:g} MHz, DRAM {gpu.dram_gbs:.0f} GB/s, "
        f"L2 {gpu.l2_bytes / (1 << 20):g} MiB (by the driver's attributes)",
        f"{'':17}{'low':>10}{'high':>10}  {'unit':8}{'of most':>8}{'per SM clk':>11}{'MHz':>7}",
    ]
    for f in figures:
        part = "" if f.fraction is None else f"{100 * f.fraction:.1f} %"
        rate = "" if f.per_clock is None else f"{f.per_clock:.1f}"
        clock = "" if f.clock_mhz is None else f"{f.clock_mhz:.0f}"
        doubt = f"  NOT BELIEVED: {f.doubt}" if f.doubt else ""
        line = f"{f.name:17}{f.low:>10.4g}{f.high:>10.4g}  {f.unit:8}{part:>8}{rate:>11}{clock:>7}{doubt}"
        lines.append(line.rstrip())
    return lines
