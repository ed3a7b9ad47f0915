"""Profiles load, agree with SMs x rate x clock, and a bad one is refused with the place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from evolve.ir.errors import EvolveError
from evolve.target.data import data_dir
from evolve.target.profile import list_profiles, load_profile, user_folder
from evolve.target.schema import as_document, read_profile

SHIPPED = sorted(file.stem for file in data_dir("hardware").glob("*.yaml"))

# The brief's figure is rounded; 148 SMs x 128 x 1965 MHz give 37.2.
ROUNDED_BY_THE_VENDOR = {("b200-sxm", "fp64")}


def near(computed: float, listed: float) -> bool:
    return abs(computed / listed - 1) <= 0.03


def test_eighteen_gpus_are_known() -> None:
    assert len(SHIPPED) == 18
    assert {"h200-sxm", "h100-sxm", "v100-sxm2", "rtx-4090", "mi300x"} <= set(list_profiles())


@pytest.mark.parametrize("stem", SHIPPED)
def test_vector_peaks_are_sms_times_rate_times_boost_clock(stem: str) -> None:
    gpu = load_profile(stem)
    assert near(gpu.per_second(2 * gpu.rates.fp32_fma) / 1e12, gpu.peaks.fp32_tflops)
    assert near(gpu.per_second(2 * gpu.rates.fp64_fma) / 1e12, gpu.peaks.fp64_tflops)


@pytest.mark.parametrize("stem", SHIPPED)
def test_tensor_peaks_are_sms_times_rate_times_tensor_clock(stem: str) -> None:
    gpu = load_profile(stem)
    assert set(gpu.peaks.tensor) == set(gpu.rates.tensor_flop)
    for kind, listed in gpu.peaks.tensor.items():
        # Double precision on tensor cores is listed at the boost clock.
        clock = gpu.clocks.boost_mhz if kind == "fp64" else gpu.clocks.tensor_mhz
        computed = gpu.rates.tensor_flop[kind] * gpu.sms * clock * 1e6 / 1e12
        assert near(computed, listed) != ((stem, kind) in ROUNDED_BY_THE_VENDOR), (kind, computed, listed)


@pytest.mark.parametrize("stem", SHIPPED)
def test_measured_ceilings_stay_below_the_peaks(stem: str) -> None:
    gpu = load_profile(stem)
    if gpu.measured is None:
        return
    for name in ("copy_16b_gbs", "copy_4b_gbs", "read_gbs", "write_gbs", "triad_gbs"):
        found = getattr(gpu.measured, name)
        assert found is None or found.high < gpu.memory.dram_gbs
        assert found is None or found.source
    if gpu.measured.fp32_tflops is not None:
        assert gpu.measured.fp32_tflops.high < gpu.peaks.fp32_tflops


def test_h200_has_what_was_measured_on_it() -> None:
    gpu = load_profile("h200-sxm")
    assert gpu.measured is not None
    assert gpu.memory.l2_bytes == 62914560
    assert gpu.measured.copy_16b_gbs is not None
    copy = gpu.measured.copy_16b_gbs
    assert 4000 < copy.low < copy.mid < copy.high < 4400 and copy.mid == (copy.low + copy.high) / 2
    assert gpu.measured.launch_us is not None
    assert 2 < gpu.measured.launch_us.low < 8
    assert gpu.measured.ex2_gops is not None
    assert near(gpu.per_second(gpu.rates.mufu), gpu.measured.ex2_gops.mid * 1e9)


def test_profiles_can_be_keys() -> None:
    assert load_profile("t4") == load_profile("t4")
    assert len({load_profile("t4"), load_profile("t4"), load_profile("l4")}) == 2


@pytest.mark.parametrize("stem", ["h300", "../hardware/t4", "", "t4.yaml", "/etc/passwd"])
def test_an_unknown_name_lists_the_known_ones(stem: str) -> None:
    with pytest.raises(EvolveError) as caught:
        load_profile(stem)
    assert caught.value.code == "unknown-profile"
    assert "h200-sxm" in caught.value.message


def changed(folder: Path, old: str, new: str) -> None:
    text = (data_dir("hardware") / "h200-sxm.yaml").read_text()
    assert old in text
    folder.mkdir(exist_ok=True)
    (folder / "h200-sxm.yaml").write_text(text.replace(old, new, 1))


def test_ones_own_folder_wins_over_the_working_folder_and_that_over_the_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVOLVE_HARDWARE", raising=False)
    assert load_profile("h200-sxm").sms == 132
    changed(tmp_path / "hardware", "sms: 132", "sms: 99")
    assert load_profile("h200-sxm").sms == 99
    changed(tmp_path / "mine", "sms: 132", "sms: 7")
    (tmp_path / "mine" / "own-gpu.yaml").write_text((tmp_path / "mine" / "h200-sxm.yaml").read_text())
    monkeypatch.setenv("EVOLVE_HARDWARE", str(tmp_path / "mine"))
    assert load_profile("h200-sxm").sms == 7
    assert load_profile("own-gpu").stem == "own-gpu"
    assert "own-gpu" in list_profiles()
    assert "t4" in list_profiles()


def test_a_folder_that_is_none_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOLVE_HARDWARE", str(tmp_path / "absent"))
    with pytest.raises(EvolveError) as caught:
        load_profile("t4")
    assert caught.value.code == "bad-hardware-folder"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sms: 132", "sms: many", "sms"),
        ("sms: 132", "sms: -1", "sms"),
        ("dram_gbs: 4800", "dram_gbs: .inf", "memory.dram_gbs"),
        ("boost_mhz: 1980", "bost_mhz: 1980", "clocks"),
        ("arch: sm_90", "arch: sm_80", "does not fit"),
        ("{low: 794.5", "{low: 795.5", "low is above high"),
        ("register_unit: 256", "", "limits.register_unit"),
        ("peaks:", "peaks: [", "not YAML"),
    ],
)
def test_a_bad_file_is_refused_with_the_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
) -> None:
    changed(tmp_path / "mine", old, new)
    monkeypatch.setenv("EVOLVE_HARDWARE", str(tmp_path / "mine"))
    with pytest.raises(EvolveError) as caught:
        load_profile("h200-sxm")
    assert caught.value.code == "bad-profile"
    assert caught.value.file == str(tmp_path / "mine" / "h200-sxm.yaml")
    assert said in caught.value.message


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"- 1", b"a: " + b"x" * 2_000_000, b"[" * 100_000])
def test_rubbish_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    (tmp_path / "odd.yaml").write_bytes(content)
    monkeypatch.setenv("EVOLVE_HARDWARE", str(tmp_path))
    with pytest.raises(EvolveError) as caught:
        load_profile("odd")
    assert caught.value.code == "bad-profile"


def test_naming_the_types_costs_no_heavy_import() -> None:
    code = "import sys, evolve.target.profile, evolve.target.limits; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("stem", SHIPPED)
def test_a_profile_survives_being_written(stem: str, tmp_path: Path) -> None:
    gpu = load_profile(stem)
    file = tmp_path / f"{stem}.yaml"
    file.write_text(yaml.safe_dump(as_document(gpu)))
    assert read_profile(file) == gpu


def test_the_users_own_folder_comes_after_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVOLVE_HARDWARE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    own = user_folder()
    assert own == tmp_path / "data" / "evolve" / "hardware"
    own.parent.mkdir(parents=True)
    changed(own, "sms: 132", "sms: 5")
    assert load_profile("h200-sxm").sms == 5
    changed(tmp_path / "hardware", "sms: 132", "sms: 99")
    assert load_profile("h200-sxm").sms == 99


def test_a_user_without_a_home_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    assert user_folder() == Path("/home/someone/.local/share/evolve/hardware")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert user_folder() is None


@pytest.mark.parametrize("stem", SHIPPED)
def test_every_latency_says_where_it_is_from(stem: str) -> None:
    gpu = load_profile(stem)
    for name in ("l1_clocks", "l2_clocks", "dram_ns", "shared_clocks"):
        if getattr(gpu.latency, name) is not None:
            assert "latency" in gpu.sources or f"latency.{name}" in gpu.sources
    assert all(key.startswith("latency") for key in gpu.sources)


def test_sources_and_what_checked_the_estimates_survive_writing(tmp_path: Path) -> None:
    gpu = load_profile("h200-sxm")
    assert gpu.sources and gpu.validated
    assert (data_dir("hardware").parent / gpu.validated).is_file()
    file = tmp_path / "h200-sxm.yaml"
    file.write_text(yaml.safe_dump(as_document(gpu)))
    again = read_profile(file)
    assert (again.sources, again.validated) == (gpu.sources, gpu.validated)
    assert load_profile("t4").validated is None


def test_l2_and_latencies_are_in_order() -> None:
    for stem in SHIPPED:
        gpu = load_profile(stem)
        latency = gpu.latency
        if latency.l1_clocks and latency.l2_clocks:
            assert latency.l1_clocks < latency.l2_clocks
        if latency.l2_clocks and latency.dram_ns:
            assert latency.l2_clocks / gpu.clocks.boost_mhz * 1e3 < latency.dram_ns
        if gpu.measured is not None and gpu.measured.l2_read_gbs is not None:
            # Above DRAM, below what the SMs' ports take.
            assert gpu.memory.dram_gbs < gpu.measured.l2_read_gbs.high < gpu.per_second(64) / 1e9
