"""Which profile describes a GPU that the driver names."""

from __future__ import annotations

from evolve.ir.errors import EvolveError
from evolve.target.profile import Profile, list_profiles, load_profile

_FORMS = ("sxm", "pcie", "rtx", "40gb", "80gb")
"""Parts of a profile's name that are not the model."""


def match_profile(name: str, multiprocessors: int, *, calibrated: bool = True) -> Profile:
    """The profile of a GPU by the driver's name and its number of SMs.

    One that was calibrated on a GPU of exactly this name comes first (none with `calibrated` false).
    Raises EvolveError `unknown-gpu`: peaks are never guessed.
    """
    profiles = [load_profile(stem) for stem in list_profiles()]
    if calibrated:
        for profile in profiles:
            if profile.provenance and profile.name == name and profile.sms == multiprocessors:
                return profile
    words = name.replace("-", " ").lower().split()
    best: tuple[int, Profile] | None = None
    for profile in profiles:
        if profile.provenance:
            continue
        # sxm4 and sxm5 are both sxm; the model's own word must be there exactly.
        parts = profile.stem.split("-")
        found = sum(any(w.startswith(p) for w in words) for p in parts)
        fits = profile.sms == multiprocessors and any(p in words for p in parts if p not in _FORMS)
        if fits and (best is None or found > best[0]):
            best = (found, profile)
    if best is not None:
        return best[1]
    raise EvolveError(
        "unknown-gpu",
        f"no hardware profile fits {name} with {multiprocessors} SMs",
        hint="run `evolve calibrate`: it measures this GPU and writes its profile",
    )
