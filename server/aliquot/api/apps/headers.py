"""Headers between browsers and apps: what is removed in each direction, and why a request is refused."""

import re
from collections.abc import Iterable, Sequence
from http.cookies import SimpleCookie
from typing import Final

from starlette.types import Scope

from aliquot.api.apps.tickets import COOKIE

Header = tuple[bytes, bytes]

HEADER_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 4 << 30
"""Of a request; uploads to notebooks are large."""
OWN_COOKIES: Final = b"aliquot_"
"""Beginning of the names of the server's cookies, which apps neither get nor set."""
_HOP: Final = frozenset(
    {
        b"connection",
        b"expect",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110, 7.6.1: of one connection only. Expect is answered by the server."""
_NOT_TO_APP: Final = _HOP | {b"authorization", b"cookie", b"forwarded", b"content-length"}
_NOT_TO_BROWSER: Final = _HOP | {b"alt-svc", b"clear-site-data", b"strict-transport-security", b"set-cookie2"}
"""The last ones apply to other origins of the browser as well."""
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""Not allowed in the value of a header; a space takes their place (RFC 9110, 5.5)."""


class AppRefused(Exception):
    """The exchange fails; `status` and the text are for the browser."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def is_own(name: bytes) -> bool:
    """Whether a cookie belongs to the server; browsers add prefixes like `__Host-` only for secure ones."""
    return name.lower().removeprefix(b"__host-").removeprefix(b"__secure-").startswith(OWN_COOKIES)


def jar_of(scope: Scope, *, isolates: bool) -> str:
    """What the names of an app's cookies have in front in the browser: nothing at a host name of its own; at a port of
    a host that apps share, the port, so that no app gets or sets a cookie of another one or of the server."""
    return "" if isolates else f"p{scope['server'][1]}_"


def own_cookie(headers: Iterable[Header], jar: str = "") -> str | None:
    """The cookie of the app's sign-in. Several of them are none: an app of another host may have added one."""
    found = [value for name, value in _cookies(headers) if name == f"{jar}{COOKIE}".encode()]
    return found[0].decode("ascii", "replace") if len(found) == 1 else None


def to_app(scope: Scope, host: str, scheme: str, *, token: str, jar: str = "") -> list[Header]:
    """The headers that the app gets: those of the request without the server's credentials, and the app's token."""
    headers: Sequence[Header] = scope["headers"]
    named = _named(headers)
    found = [
        (name, value)
        for name, value in headers
        if (lower := name.lower()) not in _NOT_TO_APP
        and lower not in named
        and not lower.startswith((b"x-forwarded-", b"sec-websocket-"))
        and lower != b"host"
    ]
    mine = jar.encode()
    cookies = ((name.removeprefix(mine), value) for name, value in _cookies(headers) if name.startswith(mine))
    kept = [name + b"=" + value for name, value in cookies if not is_own(name)]
    if kept:
        found.append((b"cookie", b"; ".join(kept)))
    found.append((b"authorization", b"Bearer " + token.encode()))
    forwarded = ((b"x-forwarded-host", host.encode()), (b"x-forwarded-proto", scheme.encode()))
    return [(b"host", host.encode()), *found, *forwarded]


def body_headers(scope: Scope) -> list[Header]:
    """How the body of a request is framed; empty = there is none."""
    given = dict(scope["headers"])
    length = given.get(b"content-length")
    if length is not None:
        if not length.isdigit():
            raise AppRefused(400, "Content-Length is not a number.")
        if int(length) > BODY_BYTES_MAX:
            raise AppRefused(413, f"The body has more than {BODY_BYTES_MAX} bytes.")
        return [(b"content-length", length)]
    return [(b"transfer-encoding", b"chunked")] if b"transfer-encoding" in given else []


def to_browser(headers: Iterable[Header], jar: str = "", *, status: int = 200) -> list[Header]:
    """The headers of the app's answer, without cookies for other hosts or of the server. A length that is not that of
    the content is removed: that of a 204 or 304 is of nothing that is sent, and a Transfer-Encoding overrides it (RFC
    9110, 8.6; RFC 9112, 6.3)."""
    listed = [(name.lower(), _CONTROL.sub(b" ", value)) for name, value in headers]
    named = _named(listed)
    if status in (204, 304) or any(name == b"transfer-encoding" for name, _ in listed):
        named.add(b"content-length")
    found = [
        (name, jar.encode() + value.lstrip() if name == b"set-cookie" else value)
        for name, value in listed
        if name not in _NOT_TO_BROWSER and name not in named and (name != b"set-cookie" or is_host_only(value))
    ]
    # Added to a policy of the app: both apply.
    return [*found, (b"content-security-policy", b"frame-ancestors 'self'")]


def cookies_to_browser(headers: Iterable[Header], jar: str = "") -> list[Header]:
    """The cookies of the app's answer to a WebSocket, as in `to_browser`."""
    return [header for header in to_browser(headers, jar) if header[0] == b"set-cookie"]


def is_host_only(value: bytes) -> bool:
    """Whether a Set-Cookie header sets a cookie of the app for its own host alone."""
    pair, *attributes = value.split(b";")
    if is_own(pair.partition(b"=")[0].strip()):
        return False
    return not any(attribute.partition(b"=")[0].strip().lower() == b"domain" for attribute in attributes)


def fault(scope: Scope, *, origin: str) -> tuple[int, str] | None:
    """Status and message for a request that is refused before its credentials are read; None = it is fine."""
    headers: Sequence[Header] = scope["headers"]
    if sum(len(name) + len(value) + 4 for name, value in headers) > HEADER_BYTES_MAX:
        return 431, f"The headers have more than {HEADER_BYTES_MAX} bytes."
    given = {name.lower(): value.decode("latin-1") for name, value in headers}
    if given.get(b"transfer-encoding") and given.get(b"content-length"):
        return 400, "Content-Length and Transfer-Encoding exclude each other."
    if given.get(b"origin", origin).lower() != origin:
        return 403, "Pages of other origins may not use this app."
    site, mode = given.get(b"sec-fetch-site", "none"), given.get(b"sec-fetch-mode", "")
    is_link = mode == "navigate" and scope.get("method", "GET") in ("GET", "HEAD")
    if site not in ("none", "same-origin") and not is_link:
        return 403, "Pages of other origins may not use this app."
    return None


def _named(headers: Iterable[Header]) -> set[bytes]:
    """Headers that Connection names as those of one connection."""
    values = [value for name, value in headers if name.lower() == b"connection"]
    return {part.strip().lower() for value in values for part in value.split(b",")}


def _cookies(headers: Iterable[Header]) -> list[tuple[bytes, bytes]]:
    """Names and values of all Cookie headers, as they were sent."""
    parts = [part.strip() for name, value in headers if name.lower() == b"cookie" for part in value.split(b";")]
    pairs = [part.partition(b"=") for part in parts if part]
    return [(name.strip(), value) for name, _, value in pairs]


def cookie_header(value: str, *, max_age_s: float, is_secure: bool, jar: str = "") -> str:
    """The Set-Cookie header of an app's sign-in: only for its own host, and not for scripts."""
    cookie: SimpleCookie = SimpleCookie()
    name_of_ours = f"{jar}{COOKIE}"
    cookie[name_of_ours] = value
    attributes = {"path": "/", "max-age": int(max_age_s), "httponly": True, "samesite": "Lax", "secure": is_secure}
    for name, attribute in attributes.items():
        cookie[name_of_ours][name] = attribute
    return cookie[name_of_ours].OutputString()
