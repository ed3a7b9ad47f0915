"""dsl, devices, doctor: what this installation has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evolve.cli import doctor
from evolve.cli.main import main
from evolve.dsl.registry import patterns, primitives, refusals, statements
from evolve.target.data import data_dir
from evolve.target.profile import list_profiles


def answer(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capfd.readouterr()
    status = main(list(arguments))
    return status, capfd.readouterr().out


def test_dsl_lists_every_primitive(capfd: pytest.CaptureFixture[str]) -> None:
    status, out = answer(capfd, "dsl", "--json")
    listed = json.loads(out)["primitives"]
    assert status == 0 and [one["name"] for one in listed] == list(primitives())
    assert all(one["meaning"] and one["legality"] and one["signature"] for one in listed)
    assert [one["name"] for one in json.loads(out)["patterns"]] == list(patterns())
    status, out = answer(capfd, "dsl")
    assert status == 0 and all(one.signature in out for one in statements().values())


def test_dsl_shows_one_primitive_also_by_an_alias(capfd: pytest.CaptureFixture[str]) -> None:
    status, out = answer(capfd, "dsl", "split")
    assert status == 0 and out.startswith("split(") and "E-NAME" in out
    assert answer(capfd, "dsl", "promote_to_shared") == answer(capfd, "dsl", "stage")
    assert answer(capfd, "dsl", "magic")[0] == 2
    status, out = answer(capfd, "dsl", "tiled_transpose")
    assert status == 0 and "stands for:" in out and "stage({array}" in out


def test_dsl_explains_a_code(capfd: pytest.CaptureFixture[str]) -> None:
    status, out = answer(capfd, "dsl", "E-REUSE")
    one = refusals()["E-REUSE"]
    assert status == 0 and out.startswith("E-REUSE\n") and f"  reuse: {one.when[0]}\n" in out
    assert f"help: {one.repair}\n" in out and "on scores:\n    reuse(s, instead_of=s_2)\n" in out
    assert "\n  threads or blocks touch one cell" in answer(capfd, "dsl", "E-RACE")[1]
    assert json.loads(answer(capfd, "dsl", "E-RACE", "--json")[1])["codes"][0]["code"] == "E-RACE"
    assert answer(capfd, "dsl", "E-NONE")[0] == 2
    # Primitives that say the same of a code are named together.
    shared = answer(capfd, "dsl", "E-NAME")[1]
    assert "split, " in shared and shared.count("no such loop\n") == 1


def test_dsl_gives_the_language_as_text_and_as_a_schema(capfd: pytest.CaptureFixture[str]) -> None:
    status, compact = answer(capfd, "dsl", "--reference", "compact")
    assert status == 0 and all(one.signature in compact for one in primitives().values())
    status, full = answer(capfd, "dsl", "--reference", "full", "--json")
    assert status == 0 and len(json.loads(full)["reference"]) > 4 * len(compact)
    status, schema = answer(capfd, "dsl", "--schema")
    assert status == 0 and json.loads(schema)["$defs"].keys() == statements().keys()
    assert answer(capfd, "dsl", "--reference", "short")[0] == 2
    assert answer(capfd, "dsl", "split", "--schema")[0] == 2


def test_moves_lists_what_may_come_next(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--kernel", str(data_dir("kernels") / "vecadd.cu"), "--device", "sim:h200-sxm")
    status, out = answer(capfd, "moves", *options)
    assert status == 0 and "split(i, 256)" in out.splitlines()
    before = tmp_path / "before.dsl"
    before.write_text("split(i, ?[256, 512])\nbind(i.o, grid.x)\n")
    status, out = answer(capfd, "moves", *options, "--program", str(before), "--json")
    found = json.loads(out)
    assert status == 0 and "bind(i.i, thread.x)" in found["moves"]
    assert sum(found["by_primitive"].values()) == len(found["moves"])
    before.write_text("bind(j, grid.x)\n")
    status, out = answer(capfd, "moves", *options, "--program", str(before), "--json")
    assert status == 1 and json.loads(out)["error"]["code"] == "E-NAME"


def test_devices_lists_every_profile_and_says_what_the_times_are(capfd: pytest.CaptureFixture[str]) -> None:
    status, out = answer(capfd, "devices", "--json")
    found = {one["device"]: one for one in json.loads(out)["devices"]}
    assert status == 0
    assert set(found) == {*(f"sim:{stem}" for stem in list_profiles()), "cuda"}
    assert found["sim:h200-sxm"]["timing"] == "estimated"
    assert found["sim:mi300x"]["usable"] is False and found["sim:v100-sxm2"]["usable"] is False


def test_a_gpu_that_nothing_compiles_for_still_has_bounds(capfd: pytest.CaptureFixture[str]) -> None:
    kernel = str(data_dir("kernels") / "vecadd.cu")
    options = ("--kernel", kernel, "--device", "sim:mi300x", "--json")
    status, out = answer(capfd, "inspect", *options)
    assert status == 0 and json.loads(out)["sol"][0]["binding"] == "dram"
    status, out = answer(capfd, "run", "--budget", "1", *options)
    assert status == 2 and json.loads(out)["error"]["code"] == "unsupported-arch"


def test_doctor_is_content_here(capfd: pytest.CaptureFixture[str]) -> None:
    status, out = answer(capfd, "doctor", "--json")
    document = json.loads(out)
    assert (status, document["ok"]) == (0, True), document
    assert {"nvrtc", "host execution", "libclang"} <= {one["check"] for one in document["checks"]}


def test_doctor_says_no_when_something_needed_is_broken(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> str:
        raise RuntimeError("no such library")

    monkeypatch.setattr(doctor, "_PROBES", (("isl", broken, True), ("gpu", broken, False)))
    status, out = answer(capfd, "doctor")
    assert status == 1 and "FAILED  isl: RuntimeError: no such library" in out and "absent  gpu" in out
    monkeypatch.setattr(doctor, "_PROBES", (("gpu", broken, False),))
    assert answer(capfd, "doctor")[0] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments", (["--help"], ["--version"], ["run", "--help"], ["dsl"], ["dsl", "--json"])
)
def test_a_full_disk_is_no_bug_of_the_tool(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "evolve", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr and "internal" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
