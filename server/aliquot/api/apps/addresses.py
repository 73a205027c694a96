"""Origins of apps: ports, or host names `NAME-ID.DOMAIN`. ID is the session's without `ses_`, and `_` before the index
of a task is written `--`."""

import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit
from zlib import crc32

from msgspec import Struct
from starlette.types import Scope

from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import SESSION_PREFIX

_LABEL: Final = re.compile(r"([a-z][a-z0-9]{0,11})-([a-z0-9-]{1,50})", re.ASCII)
_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
PORT_MAX: Final = 65_535
UNUSED_S: Final = 12 * 3600.0
"""An app that was not used for so long may lose its port; the cookies of a browser that opened it have expired."""
PAGE_S: Final = 600.0
"""An open page sends a request at least this often; one in a hidden tab may send none."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class AppName(Struct, frozen=True):
    """An app of a session."""

    session_id: str
    name: str

    @property
    def label(self) -> str:
        """The first part of its host name."""
        return f"{self.name}-{self.session_id.removeprefix(SESSION_PREFIX).replace('_', '--')}"

    @classmethod
    def of_label(cls, label: str) -> Self | None:
        """The app of a label; None = it has no such form."""
        found = _LABEL.fullmatch(label)
        return None if found is None else cls(f"{SESSION_PREFIX}{found[2].replace('--', '_')}", found[1])


class AppAddresses:
    """Converts between apps and their origins.

    Args:
        domain: the domain below which each app has a host name, like `apps.example.org`.
        base: URL of the server for its users; None = as in each request.
        own_host: host name of the server's own pages, where `base` is None.
    """

    def __init__(self, domain: str, *, base: str | None = None, own_host: str = "127.0.0.1") -> None:
        self._suffix = f".{domain.lower().strip('.')}"
        self._base = base
        self._own_host = f"[{own_host}]" if ":" in own_host else own_host

    isolates = True
    """Whether browsers keep cookies and pages of different apps apart: each has a host name."""

    def app_at(self, _scope: Scope, host: str) -> AppName | None:
        """The app of a Host header; None = it is not below the domain, or has no such form."""
        name, _, port = host.lower().partition(":")
        if not name.endswith(self._suffix) or not (_PORT.fullmatch(port) or not port) or int(port or 0) > PORT_MAX:
            return None
        return AppName.of_label(name.removesuffix(self._suffix))

    def takes(self, _scope: Scope, host: str) -> bool:
        """Whether a request is for an app: its Host header is below the domain."""
        return host.lower().partition(":")[0].endswith(self._suffix)

    def check(self, _app: AppName, _has_ended: Callable[[str], bool], *, owner: str) -> None:
        """Nothing: each app has its host name."""

    def admit(self, _app: AppName, _has_ended: Callable[[str], bool], *, owner: str) -> None:
        """Nothing, as `check`."""

    def used(self, _app: AppName) -> AbstractContextManager[None]:
        """Nothing, as `check`."""
        return nullcontext()

    def origin(self, app: AppName, scope: Scope, host: str) -> str:
        """The origin of an app, for a request to the server's own address."""
        scheme, port = self._seen(scope, host)
        shown = "" if port in (None, _DEFAULT_PORTS.get(scheme)) else f":{port}"
        return f"{scheme}://{app.label}{self._suffix}{shown}"

    def server(self, scope: Scope, host: str) -> str:
        """The server's own origin, for a request to an app."""
        if self._base is not None:
            return self._base.rstrip("/")
        scheme, port = self._seen(scope, host)
        return f"{scheme}://{self._own_host}" + ("" if port is None else f":{port}")

    def _seen(self, scope: Scope, host: str) -> tuple[str, int | None]:
        """Scheme and port that the user's browser uses."""
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        parts = urlsplit(f"{scheme}://{host}" if self._base is None else self._base)
        return parts.scheme, parts.port


@dataclass(slots=True)
class _Use:
    """The app that has a port."""

    app: AppName
    owner: str
    at: float
    """When it was used last, monotonic seconds."""
    requests: int = 0
    """Its requests and WebSockets that are open."""


class AppPorts:
    """Apps at ports of the server's own host, where no wildcard name exists. A port is given to an app when it is
    opened. An open page of the app that had it before would show the new one of the same user, and send its requests
    there, so a port is taken only from an app that was not used for long, or whose session has ended and that has no
    open page. Pages of other users have no cookie for the new app: the ports of their ended sessions are taken first,
    and where a user has two ports more than the one who opens an app, they lose one.

    Browsers send cookies to all ports of a host: see `headers.jar_of`.

    Args:
        ports: the server listens on them.
        base: URL of the server for its users; None = as in each request.
        port: the server's own port, where `base` is None.
        unused_s: an app that was not used for so long may lose its port.
        page_s: an app of an ended session without a request for so long has no open page.
    """

    isolates = False

    def __init__(
        self,
        ports: Sequence[int],
        *,
        base: str | None = None,
        port: int,
        unused_s: float = UNUSED_S,
        page_s: float = PAGE_S,
    ) -> None:
        self._ports = tuple(ports)
        self._base = base
        self._port = port
        self._unused_s = unused_s
        self._page_s = page_s
        self._uses: OrderedDict[int, _Use] = OrderedDict()
        """By port, the least recently used first."""

    def takes(self, scope: Scope, _host: str) -> bool:
        """Whether a request is for an app: it came to one of the ports."""
        return (scope.get("server") or ("", 0))[1] in self._ports

    def app_at(self, scope: Scope, _host: str) -> AppName | None:
        """The app of the port; None = it was given to none since the server started."""
        use = self._uses.get((scope.get("server") or ("", 0))[1])
        return None if use is None else use.app

    def check(self, app: AppName, has_ended: Callable[[str], bool], *, owner: str) -> None:
        """Check that `admit` would give the app a port now. Raises as it."""
        if self._port_of(app) is None:
            self._free(app, has_ended, owner)

    def admit(self, app: AppName, has_ended: Callable[[str], bool], *, owner: str) -> None:
        """Give an app a port, if it has none.

        Args:
            has_ended: whether the session of this id has ended.
            owner: of the app.

        Raises:
            Unavailable: other apps use all of them.
        """
        port = self._port_of(app)
        if port is None:
            port = self._free(app, has_ended, owner)
            self._uses[port] = _Use(app, owner, 0.0)
        self._touch(port)

    @contextmanager
    def used(self, app: AppName) -> Iterator[None]:
        """A request of a user who may open the app: until its end, the port is in use."""
        port = self._port_of(app)
        if port is None:  # it was given to another app meanwhile
            yield
            return
        use = self._uses[port]
        use.requests += 1
        try:
            yield
        finally:
            use.requests -= 1
            if self._uses[port] is use:
                self._touch(port)

    def origin(self, app: AppName, scope: Scope, host: str) -> str:
        """The origin of an app that has a port."""
        scheme, name = self._seen(scope, host)
        return f"{scheme}://{name}:{self._port_of(app)}"

    def server(self, scope: Scope, host: str) -> str:
        """The server's own origin, for a request to an app."""
        if self._base is not None:
            return self._base.rstrip("/")
        scheme, name = self._seen(scope, host)
        return f"{scheme}://{name}:{self._port}"

    def _port_of(self, app: AppName) -> int | None:
        return next((port for port, use in self._uses.items() if use.app == app), None)

    def _free(self, app: AppName, has_ended: Callable[[str], bool], owner: str) -> int:
        start = crc32(app.label.encode()) % len(self._ports)  # the same one after a restart, if it is free
        for port in self._ports[start:] + self._ports[:start]:
            if port not in self._uses:
                return port
        ended = [(port, use) for port, use in self._uses.items() if has_ended(use.app.session_id)]
        free = (
            *(port for port, use in ended if use.owner != owner),
            *(port for port, use in ended if self._is_quiet(use, self._page_s)),
            *(port for port, use in self._uses.items() if self._is_quiet(use, self._unused_s)),
        )
        return free[0] if free else self._share_of(owner, has_open_pages=any(use.owner == owner for _, use in ended))

    @staticmethod
    def _is_quiet(use: _Use, for_s: float) -> bool:
        return not use.requests and time.monotonic() - use.at >= for_s

    def _share_of(self, owner: str, *, has_open_pages: bool) -> int:
        """A port of the user who has the most, at least two more than the owner: one without an open request if there
        is one, the one unused for longest.

        Args:
            has_open_pages: whether the owner has open pages of ended sessions.
        """
        held = Counter(use.owner for use in self._uses.values())
        user, most = held.most_common(1)[0]
        if most >= held[owner] + 2:
            theirs = [port for port, use in self._uses.items() if use.owner == user]
            return min(theirs, key=lambda port: self._uses[port].requests > 0)
        text = f"each port for web services ({len(self._ports)} in apps-ports) is in use, {held[owner]} by you"
        wait = "cancel a session whose service you do not need" if held[owner] else "wait until one is free"
        if has_open_pages:
            minutes = round(self._page_s / 60)
            wait = f"close the pages of services whose session has ended; their ports are free {minutes} minutes later"
        raise Unavailable(f"{text}; {wait}, or ask an admin for more ports")

    def _touch(self, port: int) -> None:
        self._uses[port].at = time.monotonic()
        self._uses.move_to_end(port)

    def _seen(self, scope: Scope, host: str) -> tuple[str, str]:
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        parts = urlsplit(f"{scheme}://{host}" if self._base is None else self._base)
        name = parts.hostname or "127.0.0.1"
        return parts.scheme, f"[{name}]" if ":" in name else name
