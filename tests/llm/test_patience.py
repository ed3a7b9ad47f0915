"""What is tried again, and for how long."""

from __future__ import annotations

import time

import pytest

from evolve.llm.faults import AGAIN, FOR_GOOD, KINDS, Fault
from evolve.llm.patience import Patience
from evolve.llm.request import Waiting

QUICK = Patience(attempts=3, first_s=0.001, most_s=0.01)


def asked(patience: Patience, *outcomes: Fault | str) -> tuple[str | Fault, list[str]]:
    """What came of it, and the faults that were told."""
    left, told = list(outcomes), list[str]()

    def request() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, Fault):
            raise outcome
        return outcome

    try:
        return patience.ask(request, failed=lambda fault: told.append(fault.kind)), told
    except Fault as fault:
        return fault, told


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_may_pass_is_tried_again(kind: str) -> None:
    answer, told = asked(QUICK, Fault(kind, ""), "yes")
    assert (answer == "yes") == (kind in AGAIN)
    assert told == [kind]
    assert not AGAIN & FOR_GOOD


def test_attempts_end_and_all_are_told() -> None:
    fault, told = asked(QUICK, *(Fault("server-error", str(n)) for n in range(9)))
    assert isinstance(fault, Fault) and fault.message == "2"
    assert told == ["server-error"] * 3


def test_the_server_says_how_long_to_wait_but_not_for_ever() -> None:
    ticks: list[float] = []

    def once_after(seconds: float) -> float:
        faults = [Fault("rate-limited", "", after_s=seconds)]

        def request() -> str:
            if faults:
                raise faults.pop()
            return "yes"

        begun = time.monotonic()
        Patience(2, 0.001, 0.4).ask(request, lambda: ticks.append(time.monotonic()))
        return time.monotonic() - begun

    assert 0.2 <= once_after(0.2) < 0.4
    assert 0.4 <= once_after(3600) < 1.0
    assert len(ticks) >= 4, "somebody minds the rest meanwhile"


def test_who_minds_the_rest_may_end_it() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    def fail() -> str:
        raise Fault("unreachable", "")

    with pytest.raises(KeyboardInterrupt):
        Patience(5, 1.0, 1.0).ask(fail, stop)


def test_what_is_given_up_while_it_waits_or_asks_is_closed() -> None:
    closed: list[str] = []

    def request() -> Waiting[str]:
        try:
            while True:
                yield
        finally:
            closed.append("the request")

    asking = QUICK.asking(request)
    next(asking)
    asking.close()
    assert closed == ["the request"]

    def failing() -> Waiting[str]:
        raise Fault("unreachable", "")
        yield

    waiting = Patience(5, 60.0, 60.0).asking(failing)
    next(waiting)
    waiting.close()
