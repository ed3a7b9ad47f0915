"""Every fault of a server, through real ones on loopback: what each client makes of it, in a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache

import pytest

from evolve.llm.faults import AGAIN, FOR_GOOD, Fault
from evolve.llm.protocols.reply import MOST_CHARS
from tests.llm.server import CACHED, COMPLETION, PROMPT, Say, serving
from tests.llm.wires import HELLO, KEY, LIMIT_S, Wire, wired

HTML = b"<html><body>Welcome to the captive portal</body></html>"
FAULTS = {
    "slow": (Say("late", wait_s=3.0), "timeout", "1 s"),
    "drips for ever": (Say("x" * 2000, drip_s=0.3), "timeout", "1 s"),
    "hangs up": (Say(hang_up=True), "unreachable", "broke off"),
    "cut short": (Say("x" * 500, length=100_000), "unreachable", "broke off"),
    "rate limited": (Say("slow down", 429, headers=(("Retry-After", "7"),)), "rate-limited", "slow down"),
    "no quota": (Say("pay first", 402), "no-quota", "pay first"),
    "server error": (Say("oops", 500), "server-error", "HTTP 500"),
    "overloaded": (Say("busy", 503, headers=(("Retry-After", "soon"),)), "server-error", "HTTP 503"),
    "bad gateway": (Say(status=502, raw=HTML, content_type="text/html"), "server-error", "HTTP 502"),
    "wrong key": (Say(f"Incorrect API key provided: {KEY}", 401), "wrong-key", "[key]"),
    "forbidden": (Say("no", 403), "wrong-key", "HTTP 403"),
    "unknown model": (Say("no such model", 404), "unknown-model", "no such model"),
    "prompt too long": (Say("maximum context length", 400), "bad-request", "maximum context length"),
    "web page": (Say(raw=HTML, content_type="text/html"), "malformed", "not a chat completion"),
    "no JSON": (Say(raw=b'{"choices": [{"mess'), "malformed", ""),
    "other JSON": (Say(raw=b'{"choices": []}'), "malformed", "not a chat completion"),
    "a list": (Say(raw=b"[1, 2, 3]"), "malformed", "not a chat completion"),
    "null": (Say(raw=b"null"), "malformed", ""),
    "not UTF-8": (Say(raw=b'{"choices": "\xff\xfe"}'), "malformed", ""),
    "empty body": (Say(raw=b""), "malformed", ""),
    "empty": (Say(""), "empty", ""),
    "blank": (Say(" \n\t"), "empty", ""),
    "nothing": (Say(None), "empty", ""),
    "refusal": (Say(None, refusal="I will not"), "refusal", "I will not"),
    "filtered": (Say("half", finish="content_filter"), "refusal", "content filter"),
}
OF_OPENAI = {
    "quota by code": (Say("pay first", 429, code="insufficient_quota"), "no-quota", "pay first"),
    "no message": (Say(raw=b'{"choices": [{"index": 0}]}'), "malformed", "not a chat completion"),
    "content is a number": (
        Say(raw=b'{"choices": [{"message": {"content": 7}}]}'),
        "malformed",
        "not a text",
    ),
    "choices is a number": (Say(raw=b'{"choices": 7}'), "malformed", "not a chat completion"),
}
OF_ANTHROPIC = {
    "ends early": (Say("half", events=4), "unreachable", "no end"),
    "ends at once": (Say("none", events=0), "malformed", "not a stream"),
    "overloaded midway": (Say("half", events=4, breaks="overloaded_error"), "server-error", "broken"),
    "limited midway": (Say("half", events=1, breaks="rate_limit_error"), "rate-limited", "broken"),
    "no credit": (Say("Your credit balance is too low", 400), "no-quota", "credit"),
    "events of nothing": (Say(raw=b"event: message_start\ndata: {}\n\n"), "malformed", ""),
    "events of numbers": (Say(raw=b"event: message_start\ndata: 7\n\n"), "malformed", ""),
    "half an event": (Say(raw=b'event: message_start\ndata: {"type": "mess\n\n'), "malformed", ""),
    "a delta of nothing": (
        Say(raw=b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 3}\n\n'),
        "malformed",
        "",
    ),
}
OTHERWISE = {
    ("anthropic", "web page"): ("malformed", "not a stream of events"),
    ("anthropic", "other JSON"): ("malformed", "not a stream of events"),
    ("anthropic", "a list"): ("malformed", "not a stream of events"),
    ("anthropic", "refusal"): ("refusal", "the model stopped itself"),
    ("anthropic", "filtered"): ("refusal", "the model stopped itself"),
    ("ollama", "wrong key"): ("wrong-key", "REDACTED"),  # which is litellm's
    ("ollama", "web page"): ("malformed", "cannot be read"),
    ("ollama", "other JSON"): ("malformed", "cannot be read"),
    ("ollama", "a list"): ("malformed", "cannot be read"),
    ("ollama", "nothing"): ("malformed", "cannot be read"),
    ("ollama", "refusal"): ("malformed", "cannot be read"),  # it knows no refusals, and the text is none
}
"""Where a protocol has another word for it, or litellm a message of its own."""
UNSPENT = {
    "rate limited",
    "no quota",
    "overloaded",
    "wrong key",
    "forbidden",
    "unknown model",
    "prompt too long",
    "quota by code",
    "no credit",
}
"""Where the server says that it did nothing; whatever else it says, it may bill what it did."""
CASES = [
    *((protocol, name) for protocol in ("openai", "anthropic", "ollama") for name in FAULTS),
    *(("openai", name) for name in OF_OPENAI),
    *(("anthropic", name) for name in OF_ANTHROPIC),
]


@pytest.fixture(scope="module")
def wires() -> Iterator[Callable[[str], Wire]]:
    """A wire by its protocol, made when it is first needed."""
    with ExitStack() as stack:
        yield cache(lambda protocol: stack.enter_context(wired(protocol)))


@pytest.mark.parametrize(("protocol", "name"), CASES)
def test_faults(wires: Callable[[str], Wire], protocol: str, name: str) -> None:
    wire = wires(protocol)
    say, *told = (FAULTS | OF_OPENAI | OF_ANTHROPIC)[name]
    kind, message = OTHERWISE.get((protocol, name), told)
    wire.say(say)
    begun, before = time.monotonic(), len(wire.server.requests)
    with pytest.raises(Fault) as caught:
        wire.client.ask(HELLO)
    fault = caught.value
    assert (fault.kind, message in fault.message) == (kind, True), fault.message
    assert KEY not in fault.message
    assert fault.unspent == (name in UNSPENT)
    assert time.monotonic() - begun < LIMIT_S + 5
    assert len(wire.server.requests) == before + 1, "no client tries again on its own"
    if name == "rate limited":
        assert fault.after_s == 7.0
    if name == "ends early":
        assert (fault.tokens.prompt, fault.tokens.completion) == (PROMPT, None), "the end did not come"
    if kind in ("empty", "refusal"):
        cached = None if protocol == "ollama" else CACHED
        assert (fault.tokens.prompt, fault.tokens.cached) == (PROMPT, cached), "it cost them all the same"
        assert fault.tokens.completion == COMPLETION
    wire.say(Say("well again"))
    assert wire.client.ask(HELLO).text == "well again"


@pytest.mark.parametrize("protocol", ["openai", "anthropic", "ollama"])
def test_what_a_malicious_server_answers(wires: Callable[[str], Wire], protocol: str) -> None:
    """An answer without end is cut; times to wait are believed within reason; control characters are text."""
    wire = wires(protocol)
    wire.say(Say("x" * 3_000_000))
    answer = wire.client.ask(HELLO)
    assert (len(answer.text), answer.cut) == (MOST_CHARS, True)
    for told in ("-5", "1e300", "nan", "inf", "Wed, 21 Oct 2015 07:28:00 GMT", "7" * 400):
        wire.say(Say("slow down", 429, headers=(("Retry-After", told),)))
        with pytest.raises(Fault) as caught:
            wire.client.ask(HELLO)
        assert (caught.value.kind, caught.value.after_s) == ("rate-limited", 0.0), told
    wire.say(Say('\x1b[2J\x00\u202e\ud800 {"id": 1}\n'))
    text = wire.client.ask(HELLO).text
    assert "\x1b[2J" in text and text.encode(), "a file can hold it"


@pytest.mark.parametrize("protocol", ["openai", "anthropic", "ollama"])
def test_a_server_that_sends_elsewhere_does_not_send_the_key_there(
    wires: Callable[[str], Wire], protocol: str
) -> None:
    wire = wires(protocol)
    with serving(lambda number, request: Say("from elsewhere")) as other:
        paths = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "ollama": "/api/chat"}
        place = f"http://localhost:{other.root.rpartition(':')[2]}{paths[protocol]}"
        wire.say(Say("", 307, headers=(("Location", place),)))
        with suppress(Fault):
            wire.client.ask(HELLO)
        assert not any(KEY in key for key in other.keys), other.keys


@pytest.mark.parametrize("protocol", ["openai", "anthropic", "ollama"])
def test_a_server_that_dies_and_comes_back_no_more(wires: Callable[[str], Wire], protocol: str) -> None:
    """Each request says so, the first one, which it dies of, too. The last test of a wire."""
    wire = wires(protocol)
    wire.say(Say("never", wait_s=0.4, hang_up=True))
    ticket = wire.client.begin(HELLO)
    before = len(wire.server.requests)
    while len(wire.server.requests) == before and not wire.client.ready(ticket):
        time.sleep(0.01)
    wire.server.stop()
    with pytest.raises(Fault) as caught:
        wire.client.answer(ticket)
    assert (caught.value.kind, caught.value.unspent) == ("unreachable", False)
    for _ in range(2):
        with pytest.raises(Fault) as caught:
            wire.client.ask(HELLO)
        assert (caught.value.kind, caught.value.again) == ("unreachable", True), caught.value.message
        assert caught.value.unspent, "it was not reached"


def test_every_kind_that_a_server_causes_is_in_the_table() -> None:
    kinds = {kind for _, kind, _ in FAULTS.values()}
    assert kinds >= (AGAIN | FOR_GOOD) - {"client-died", "no-key", "unknown-provider"}
