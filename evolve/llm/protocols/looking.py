"""What a server of one's own tells of itself, such as the size of its context: pages of it that are JSON."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from evolve.llm.protocols.reply import Asked, Reply, Speaker, fault, of_connection, of_status

_MOST_BYTES = 1 << 20


class _Stay(HTTPRedirectHandler):
    """Follows nobody to another place, since the key goes along."""

    def redirect_request(self, *told: Any) -> None:
        return None


def looker(key: str, base: str | None) -> Speaker:
    """Reads the page at `asked["look"]` of the server at `base`; `asked["body"]`, where there is one, is sent
    to it as JSON. The reply's text is the page."""
    root = (base or "").rstrip("/").removesuffix("/v1")
    opener = build_opener(_Stay)

    def read(asked: Asked) -> Reply:
        body = asked["body"]
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        request = Request(root + asked["look"], sent, headers)
        with opener.open(request, timeout=asked["limit_s"]) as page:
            text = page.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            return fault("malformed", f"the page has over {_MOST_BYTES} bytes")
        json.loads(text)
        return {"text": text.decode(), "finish": "whole"}

    async def look(asked: Asked) -> Reply:
        return await asyncio.to_thread(read, asked)

    return look


def read_error(error: Exception) -> Reply:
    """What an error of `look` says."""
    match error:
        case HTTPError():
            return of_status(error.code, str(error.reason), dict(error.headers.items()))
        case TimeoutError():
            return fault("timeout", "no page in time")
        case OSError() | http.client.HTTPException():
            return of_connection(error)
        case _:
            return fault("malformed", f"the page is no JSON: {error}")
