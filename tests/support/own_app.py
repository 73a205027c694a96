"""A session's app as a browser uses it: signed in by the address that the command line prints.

The machine need not resolve names below `localhost`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import connect


@dataclass(frozen=True, kw_only=True)
class OwnApp:
    """A browser at the app's origin."""

    http: httpx.AsyncClient
    host: str
    port: int
    cookie: str

    def socket(self, path: str) -> connect:
        """A WebSocket to the app, as its own pages open it."""
        headers = {"cookie": self.cookie, "origin": f"http://{self.host}"}
        return connect(
            f"ws://{self.host}{path}",
            host="127.0.0.1",
            port=self.port,
            additional_headers=headers,
            compression=None,
            max_size=None,
        )


@asynccontextmanager
async def own_app(address: str) -> AsyncIterator[OwnApp]:
    """Sign in at an address from `aliquot session open`."""
    parts = urlsplit(address)
    assert parts.port is not None
    headers = {"host": parts.netloc}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{parts.port}", headers=headers, timeout=60) as http:
        answer = await http.get(f"{parts.path}?{parts.query}")
        assert answer.status_code == 303, answer.text
        cookie = answer.headers["set-cookie"].partition(";")[0]
        http.headers["cookie"] = cookie
        yield OwnApp(http=http, host=parts.netloc, port=parts.port, cookie=cookie)
