"""Blobs: named by content, whole or absent, checked on reading."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from evolve.events.blobs import BlobStore
from evolve.events.disk import replace_file
from evolve.ir.errors import EvolveError


@pytest.mark.parametrize("text", ["", "__global__ void f() {}\n", "é ∞ \U0001f600", "a\r\nb\0"])
def test_put_and_get(tmp_path: Path, text: str) -> None:
    store = BlobStore(tmp_path / "blobs")
    digest = store.put(text)
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    assert store.put(text) == digest
    assert store.get(digest) == text
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_an_altered_blob_is_refused(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digest = store.put("one")
    store.path(digest).write_text("two")
    with pytest.raises(EvolveError) as caught:
        store.get(digest)
    assert caught.value.code == "damaged-blob"
    store.path(digest).unlink()
    with pytest.raises(EvolveError) as caught:
        store.get(digest)
    assert caught.value.code == "damaged-blob"


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "a" * 63])
def test_a_name_from_a_log_cannot_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(EvolveError) as caught:
        BlobStore(tmp_path).get(name)
    assert caught.value.code == "damaged-log"


@pytest.mark.parametrize("place", ["/proc/x", "/dev/full/x", "/dev/null/x"])
def test_unwritable_places(place: str) -> None:
    with pytest.raises(EvolveError) as caught:
        replace_file(Path(place), b"data")
    assert caught.value.code == "cannot-write" and caught.value.file == place


def test_a_failed_replacement_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "best.cu"
    replace_file(path, b"old")

    def fail(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(EvolveError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["best.cu"]
