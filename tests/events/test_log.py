"""The log: whole lines, one writer, damage named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolve.events.log import EventWriter, read_log
from evolve.events.schema import Asked, Idea, Stopped, as_json
from evolve.ir.errors import EvolveError


def write(folder: Path, count: int = 6) -> Path:
    with EventWriter(folder, clock=lambda: 12.5) as writer:
        for number in range(count):
            idea = Idea(program=f"split(c, {number})\n", operator="test")
            writer.append(Asked(ask=number, island=0, by_agent=True, ideas=(idea,)))
    return folder / "events.jsonl"


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    log = read_log(write(tmp_path))
    assert [event.seq for event in log.events] == list(range(6))
    assert log.events[3].body == Asked(
        ask=3, island=0, by_agent=True, ideas=(Idea(program="split(c, 3)\n", operator="test"),)
    )
    assert not log.torn


def test_appending_goes_on_where_the_log_ends(tmp_path: Path) -> None:
    path = write(tmp_path)
    with EventWriter(tmp_path) as writer:
        assert len(writer.recorded) == 6
        writer.append(Stopped(reason="budget"))
    assert read_log(path).events[-1].body == Stopped(reason="budget")


def test_every_cut_of_the_last_line_is_tolerated_and_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path)
    data = path.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last + 1, len(data)):
        path.write_bytes(data[:end])
        log = read_log(path)
        assert len(log.events) == 5 and log.torn
    path.write_bytes(data[:-9] + b"\x00\x00\x00\x00\n")
    assert read_log(path).torn
    with EventWriter(tmp_path) as writer:
        writer.append(Stopped(reason="budget"))
    assert [event.body.kind for event in read_log(path).events] == ["asked"] * 5 + ["stopped"]


@given(data=st.data())
def test_any_changed_byte_before_the_last_line_is_found(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    path = write(folder)
    content = path.read_bytes()
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    at = data.draw(st.integers(0, last - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value not in (content[at], ord("\n"))))
    if content[at] == ord("\n"):
        return  # joins two lines: the next test
    path.write_bytes(content[:at] + bytes([byte]) + content[at + 1 :])
    with pytest.raises(EvolveError) as caught:
        read_log(path)
    assert caught.value.code in ("damaged-log", "newer-log")
    assert caught.value.file == str(path)
    assert caught.value.line == content[:at].count(b"\n") + 1


@pytest.mark.parametrize("keep", [(0, 1, 3, 4, 5), (1, 2, 3, 4, 5), (0, 1, 1, 2, 3), (0, 2, 1, 3, 4)])
def test_missing_repeated_and_exchanged_lines_are_found(tmp_path: Path, keep: tuple[int, ...]) -> None:
    path = write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[at] for at in keep))
    with pytest.raises(EvolveError) as caught:
        read_log(path)
    assert caught.value.code == "damaged-log"


def test_joined_lines_are_found(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"", 1))
    with pytest.raises(EvolveError) as caught:
        read_log(path)
    assert (caught.value.code, caught.value.line) == ("damaged-log", 1)


def test_a_newer_version_is_not_called_damage(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'{"v":1,', b'{"v":2,'))
    with pytest.raises(EvolveError) as caught:
        read_log(path)
    assert caught.value.code == "newer-log"


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from evolve.events.log import EventWriter;"
        "from evolve.ir.errors import EvolveError\n"
        "try:\n EventWriter(Path(sys.argv[1]))\n"
        "except EvolveError as error:\n print(error.code, error.message)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with EventWriter(tmp_path):
        with pytest.raises(EvolveError) as caught:
            EventWriter(tmp_path)
        assert caught.value.code == "run-in-use"
        other = subprocess.run(command, capture_output=True, text=True, check=True)
        assert other.stdout.startswith("run-in-use") and str(os.getpid()) in other.stdout
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


def test_a_failed_write_leaves_whole_lines(tmp_path: Path) -> None:
    script = """if True:
        import resource, sys
        from pathlib import Path
        from evolve.events.log import EventWriter
        from evolve.events.schema import Asked, Idea
        from evolve.ir.errors import EvolveError
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        written = 0
        with EventWriter(Path(sys.argv[1])) as writer:
            try:
                while True:
                    idea = Idea(program="x" * 100, operator="test")
                    writer.append(Asked(ask=written, island=0, by_agent=True, ideas=(idea,)))
                    written += 1
            except EvolveError as error:
                print(written, error.code, "ulimit" in (error.hint or ""))
    """
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    written, code, hint = done.stdout.split()
    assert (code, hint) == ("cannot-write", "True")
    log = read_log(tmp_path / "events.jsonl")
    assert len(log.events) == int(written) > 0 and not log.torn


def test_unknown_fields_and_kinds_are_damage(tmp_path: Path) -> None:
    path = write(tmp_path)
    for old, new in ((b'"island":0', b'"island":0,"x":1'), (b'"asked"', b'"askew"')):
        content = path.read_bytes()
        path.write_bytes(content.replace(old, new, 1))
        with pytest.raises(EvolveError) as caught:
            read_log(path)
        assert (caught.value.code, caught.value.line) == ("damaged-log", 1)
        path.write_bytes(content)


def test_as_json_is_what_reads_back() -> None:
    value = {1: (1, 2.5, {"b", "a"}), "inf": float("inf"), "nested": [{"x": (None, True)}], "path": Path("p")}
    assert as_json(value) == {
        "1": [1, 2.5, ["a", "b"]],
        "inf": None,
        "nested": [{"x": [None, True]}],
        "path": "p",
    }


def test_damage_is_said_in_our_words(tmp_path: Path) -> None:
    path = write(tmp_path, 3)
    whole = path.read_bytes().splitlines(keepends=True)
    for old, new, says in (
        (b'"island":0', b'"island":"x"', "the field asked.island does not hold what it should"),
        (b'"island":0', b'"colour":0,"island":0', "the field colour is not known"),
        (b'"island":0,', b"", "the field island is missing"),
        (b'"asked"', b'"clown"', "it is an event of no known kind"),
        (b"{", b"", "it is not a line of JSON"),
    ):
        assert old in whole[1]
        path.write_bytes(b"".join([whole[0], whole[1].replace(old, new, 1), whole[2]]))
        with pytest.raises(EvolveError) as caught:
            read_log(path)
        assert caught.value.line == 2 and says in caught.value.message, caught.value.message
