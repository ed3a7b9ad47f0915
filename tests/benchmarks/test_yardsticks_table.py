"""The tables of the documents are what the committed measurement says."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.yardsticks_table import row, table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/yardsticks-h200.json"


SHOWN = ("attention", "softmax", "layernorm", "transpose", "stencil3x3", "histogram", "matmul")
SHOWN += ("spmv-power_law",)


def test_the_documents_have_the_tables_of_the_committed_results() -> None:
    results = json.loads(RESULTS.read_text())
    assert table(results) in (ROOT / "benchmarks/README.md").read_text()
    assert table(results, SHOWN) in (ROOT / "README.md").read_text()


def test_a_speed_is_of_the_yardstick_whose_traffic_is_alike() -> None:
    record = {
        "kernel": "total",
        "numerics": "reassociate",
        "sizes": {"n": 1 << 28, "alpha": 0.5},
        "ours": "total-atomic",
        "programs": {"total-atomic": ""},
        "median_us": {"total-atomic": 234.24, "eager": 250.02, "compiled": 237.06},
        "ours_over_compiled": 0.9881,
        "ours_over_compiled_95": [0.9858, 0.99],
        "of_copy": 1.0866,
        "of_read": 1.0272,
    }
    assert (
        row(record) == "| total | 2^28 | 234.2 | 250.0 | 237.1 | 0.988 (0.986 to 0.990) | - | 1.03 of read |"
    )
    record["in_a_row_us"] = {"total-atomic": 234.0, "compiled": 238.0}
    assert "| 0.983 | 1.03 of read |" in row(record)
    del record["in_a_row_us"]
    del record["of_read"]
    assert row(record).endswith("| 1.09 of copy |")
    assert row(record | {"numerics": "fast"}).startswith("| total (numerics fast) | 2^28")
    record["tflops"] = {"total-atomic": 48.83}
    assert row(record).endswith("| 48.8 TFLOP/s |")


def test_the_program_that_is_fastest_in_a_row_is_shown() -> None:
    """Not the one that only puts off what it writes."""
    record = {
        "kernel": "gelu",
        "sizes": {"n": 8},
        "numerics": "reassociate",
        "ours": "gelu-last",
        "programs": {"gelu": "", "gelu-last": ""},
        "median_us": {"gelu": 10.0, "gelu-last": 9.0, "eager": 20.0, "compiled": 12.5},
        "in_a_row_us": {"gelu": 11.0, "gelu-last": 12.0, "compiled": 22.0},
        "samples_us": {"gelu": [10.0] * 5, "compiled": [12.5] * 5},
        "of_copy": 1.0,
    }
    assert "| 10.0 | 20.0 | 12.5 | 0.800 (0.800 to 0.800) | 0.500 | 0.90 of copy |" in row(record)
