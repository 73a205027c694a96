"""`aliquot serve`: runs the server in the foreground.

Garbage collection is tuned: objects that survive a full collection are frozen, and all objects are examined again
every six hours. Otherwise Python examines all long-lived objects again and again, 0.2 s each time with ten thousand
sessions, although nearly all of them are records without cycles.
"""

import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from aliquot.app.composition import Server
    from aliquot.settings import Settings


Host = Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")]
Port = Annotated[int | None, typer.Option(help="The port to listen on; 0 takes a free one.", show_default="8090")]
TlsCertificate = Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate, with its chain, in PEM.")]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's private key, in PEM.")]
BehindProxy = Annotated[
    bool, typer.Option("--behind-proxy", help="A proxy does TLS, and only the proxy reaches the port.")
]
SingleTrustDomain = Annotated[
    bool, typer.Option("--single-trust-domain", help="All users who may submit trust each other.")
]
AllowedHosts = Annotated[
    list[str] | None, typer.Option(help="A further host name that requests may be addressed to; may be repeated.")
]
DataFolder = Annotated[Path | None, typer.Option(help="The folder of state, token and job files.")]
Database = Annotated[
    str | None, typer.Option(metavar="URL", help="A PostgreSQL URL, instead of SQLite in the data folder.")
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The public URL of this server, like https://host:8090.", show_default="as it listens"
    ),
]
Stopped = Annotated[
    bool, typer.Option("--stopped", help="A new cluster starts nothing until an operator starts the scheduler.")
]
Observe = Annotated[
    bool,
    typer.Option("--observe", help="Start and stop nothing: record who uses which GPU, and report to operators."),
]
Advise = Annotated[bool, typer.Option("--advise", help="As --observe, and owners get notices too.")]
Demo = Annotated[
    bool, typer.Option("--demo", help="Use two mock nodes with eight H100 each, even where there are real GPUs.")
]
DemoLive = Annotated[
    bool,
    typer.Option(
        "--demo-live",
        help="The demo cluster at work: invented users, a week of history, a synthetic load. In a folder of its own.",
    ),
]
New = Annotated[
    bool,
    typer.Option(
        "--new", help="Start a new cluster on an empty database, even if this data folder belonged to another one."
    ),
]
AcceptClock = Annotated[
    bool,
    typer.Option(
        "--accept-clock",
        help="Start even if the newest event is more than a day ahead: this machine's clock is right.",
    ),
]
SchedulingPolicy = Annotated[
    str | None, typer.Option(help="Order of a new cluster: fair_share, relative_age, priority, fcfs, sjf, srtf or las.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND=PERIOD",
        help="Retention of a kind of record, like events=30d, 36h, 12w, 2y or forever; may be repeated. Records are "
        "archived before removal, unless archive = false is set.",
        show_default="sessions=365d, events=90d, ledger=30d, findings=90d, logs=30d, results=365d, "
        "readings=24h, minutes=30d, hours=365d",
    ),
]
StateExport = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Every 30 seconds, write the state of the cluster there, like `aliquot state export`."
    ),
]
Accelerators = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A file of mock accelerators; each further one makes a further agent."),
]


def serve(
    host: Host = None,
    port: Port = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    behind_proxy: BehindProxy = False,
    single_trust_domain: SingleTrustDomain = False,
    allowed_host: AllowedHosts = None,
    data_folder: DataFolder = None,
    database: Database = None,
    address: Address = None,
    accelerators: Accelerators = None,
    demo: Demo = False,
    demo_live: DemoLive = False,
    no_local_agents: Annotated[bool, typer.Option("--no-local-agents", help="Run no agents in the server.")] = False,
    executor: Annotated[str | None, typer.Option(help="Where agents run: local or ray.")] = None,
    ray_head: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The Ray cluster's head.")] = None,
    ray_token_file: Annotated[Path | None, typer.Option(help="The file with Ray's token.")] = None,
    job_user: Annotated[str | None, typer.Option(help="The Unix account that jobs run as.")] = None,
    allow_root_jobs: Annotated[bool, typer.Option("--allow-root-jobs", help="Let jobs run as root.")] = False,
    stopped: Stopped = False,
    observe: Observe = False,
    advise: Advise = False,
    new: New = False,
    accept_clock: AcceptClock = False,
    scheduling_policy: SchedulingPolicy = None,
    keep: Keep = None,
    state_export: StateExport = None,
    max_queue_size: Annotated[int | None, typer.Option(help="Pending tasks allowed.", show_default="100000")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="console or json.")] = None,
) -> None:
    """Run the server until SIGTERM or Ctrl-C. Jobs keep running without it, and the next start finds them again."""
    code = _code(
        once={"is_new": new, "accepts_clock": accept_clock},
        host=host,
        port=port,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        behind_proxy=behind_proxy,
        single_trust_domain=single_trust_domain,
        allowed_hosts=tuple(allowed_host or ()),
        data_folder=data_folder,
        database=database,
        address=address,
        accelerators=tuple(accelerators or ()),
        **({"demo_live": "yes"} if demo_live else {"demo": demo}),
        local_agents=None if not no_local_agents else "no",
        executor=executor,
        ray_head=ray_head,
        ray_token_file=ray_token_file,
        job_user=job_user,
        allow_root_jobs=allow_root_jobs,
        orchestration_enabled=None if not stopped else "no",
        mode="observe" if observe else "advise" if advise else None,
        scheduling_policy=scheduling_policy,
        keep=keep or (),
        state_export=state_export,
        max_queue_size=max_queue_size,
        log_level=log_level,
        log_format=log_format,
    )
    raise typer.Exit(code)


def _code(*, keep: Sequence[str], once: Mapping[str, bool], **flags: Any) -> int:
    from aliquot.app.demo import with_demo
    from aliquot.errors import ConfigurationError
    from aliquot.settings import read_settings
    from aliquot_schema.errors import AliquotError

    # Objects made at start are long-lived: collecting among them takes a fifth of the time to start.
    gc.disable()
    try:
        return _run(with_demo(read_settings(warns=False, **flags, **_kept(keep))), once=once)
    except (ConfigurationError, AliquotError) as error:
        print(f"aliquot cannot start: {error}", file=sys.stderr)
        return 2


def _kept(given: Sequence[str]) -> dict[str, str]:
    """The settings that `--keep` gives, by name.

    Raises:
        ConfigurationError: an unknown kind, or no period.
    """
    from aliquot.errors import ConfigurationError
    from aliquot.settings import Settings

    kinds = {name.removeprefix("keep_"): name for name in Settings.model_fields if name.startswith("keep_")}
    found = {}
    for text in given:
        kind, _, period = text.partition("=")
        if kind not in kinds or not period:
            raise ConfigurationError(f"--keep: {text!r} is not KIND=PERIOD; kinds are {', '.join(kinds)}")
        found[kinds[kind]] = period
    return found


def _run(settings: "Settings", *, once: Mapping[str, bool]) -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_serve(settings, once=once))
    return uvloop.run(_serve(settings, once=once))


async def _serve(settings: "Settings", *, once: Mapping[str, bool]) -> int:
    from aliquot.app.composition import serving
    from aliquot.app.logging import set_up_logs
    from aliquot.cli.listener import Listener, app_sockets, bound_socket, certificate_of
    from aliquot.service.metrics.log_context import RateLimited
    from aliquot.settings import warn_of_deprecated_settings

    # httpx logs the URL of each request, and the URL of a receiver can be a secret.
    quiet = ("alembic", "httpcore", "httpx", "uvicorn")
    set_up_logs(level=settings.log_level, form=settings.log_format, quiet=quiet)
    warn_of_deprecated_settings()
    uvicorn_log = logging.getLogger("uvicorn.error")
    uvicorn_log.addFilter(_is_not_shutdown)
    uvicorn_log.addFilter(_is_not_denial)
    uvicorn_log.addFilter(RateLimited(uvicorn_log, "Invalid HTTP request", "requests that are not HTTP"))
    certificate = certificate_of(settings)
    with ExitStack() as sockets:
        taken = [sockets.enter_context(one) for one in (bound_socket(settings), *app_sockets(settings))]
        async with serving(settings, **once) as server:
            GcTuning().begin()
            listener = Listener(
                server,
                certificate=certificate,
                behind_proxy=settings.behind_proxy,
                on_started=lambda port: _print_addresses(port, server, settings),
            )
            async with _exported(server, settings.state_export):
                await listener.serve_until(server.failed, taken=taken)
            code = 1 if server.failed.is_set() or not listener.started else 0
    try:
        print("Aliquot has stopped. Running sessions continue, and the next start finds them again.", flush=True)
    except OSError:  # the terminal was closed; what is left in the buffer would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


@asynccontextmanager
async def _exported(server: "Server", folder: Path | None) -> AsyncIterator[None]:
    """Export the state while the context is open.

    Raises:
        ConfigurationError: the folder cannot be made.
    """
    from aliquot.cli.state_export import keep_exported

    if folder is None:
        yield
        return
    token = _ready_to_export(folder, token_file=server.token_file)
    exporting = asyncio.create_task(keep_exported(server.app, token=token, folder=folder), name="state export")
    try:
        yield
    finally:
        exporting.cancel()
        with suppress(asyncio.CancelledError):
            await exporting


def _ready_to_export(folder: Path, *, token_file: Path) -> str:
    """Make the folder, and return the server's token.

    Raises:
        ConfigurationError: the folder cannot be made.
    """
    from aliquot.errors import ConfigurationError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        return token_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"state-export: {error.filename}: {error.strerror}") from None


def _is_not_shutdown(record: logging.LogRecord) -> bool:
    """False for a request that was canceled because the server stops, which is not an error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _is_not_denial(record: logging.LogRecord) -> bool:
    """False for uvicorn's error about a WebSocket that was answered with a response instead of a handshake. It is
    wrong, and the access log has the request."""
    return record.msg != "ASGI callable returned without completing handshake."


def _print_addresses(port: int, server: "Server", settings: "Settings") -> None:
    address = settings.model_copy(update={"port": port}).own_address
    print(f"Aliquot is up, with {server.devices_found}.")
    if settings.demo_live == "yes":
        print("  This is a demo: its users, its week of history and its load are invented, and so is every reading.")
    print(f"  in a browser   {address}/login?code={server.auth.new_login_code()}   (works once)")
    print(f"  GraphQL        {address}/graphql   (Authorization: Bearer and the token in {server.token_file})")
    print(f"  data           {settings.data_folder}", flush=True)


OLDEST: Final = 2
THRESHOLDS: Final = (20_000, 0, 0)
"""New objects until a collection, and collections between those of older generations; see `gc.set_threshold`. Python's
default of 700 is reached by a few requests: their objects would be examined over and over. With 0, every third
collection is a full one, and each object is examined at most three times before it is frozen, 60,000 at a time."""
THOROUGH_S: Final = 6 * 3600.0
"""Interval at which all objects are examined, for cycles that became garbage after they were frozen."""


class GcTuning:
    """Freezes objects that survive a full collection, and unfreezes all of them every `thorough_s` seconds."""

    def __init__(self, *, thorough_s: float = THOROUGH_S) -> None:
        self._thorough_s = thorough_s
        self._unfrozen_at = time.monotonic()
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        """Start; objects that exist already are frozen."""
        gc.freeze()
        gc.callbacks.append(self._on_collection)
        gc.set_threshold(*THRESHOLDS)
        gc.enable()

    def end(self) -> None:
        """Restore Python's defaults."""
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def _on_collection(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase != "stop" or info["generation"] != OLDEST:
            return
        if time.monotonic() - self._unfrozen_at < self._thorough_s:
            gc.freeze()
        else:
            self._unfrozen_at = time.monotonic()
            gc.unfreeze()  # the next full collection examines everything
