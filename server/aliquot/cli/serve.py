"""`aliquot serve`: the server, in the foreground."""

import asyncio
import gc
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from aliquot.app import Server
    from aliquot.settings import Settings

Port = Annotated[int | None, typer.Option(help="The port to listen on; 0 takes a free one.", show_default="8090")]
BehindProxy = Annotated[
    bool, typer.Option("--behind-proxy", help="A proxy does TLS, and nobody else reaches the port.")
]
SingleTrustDomain = Annotated[
    bool, typer.Option("--single-trust-domain", help="Everybody who may submit is trusted alike.")
]
AllowedHosts = Annotated[list[str] | None, typer.Option(help="A further name under which requests are answered.")]
Database = Annotated[str | None, typer.Option(help="A PostgreSQL URL, instead of SQLite in the data folder.")]
Address = Annotated[
    str | None,
    typer.Option(help="Where others reach this server, like https://host:8090.", show_default="as it listens"),
]
Stopped = Annotated[
    bool, typer.Option("--stopped", help="A new cluster places nothing until somebody starts the orchestrator.")
]
SchedulingPolicy = Annotated[
    str | None, typer.Option(help="Who is next on a new cluster: fair_share, priority, fcfs, sjf or gang.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND=PERIOD",
        help="How long a kind of history is kept, like events=30d, 36h, 12w, 2y or forever; again for each kind. It is "
        "archived before it goes, unless archive = false is set.",
        show_default="sessions=365d, events=90d, ledger=30d, findings=90d, logs=30d, results=365d, "
        "readings=24h, minutes=30d, hours=365d",
    ),
]
Accelerators = Annotated[
    list[Path] | None, typer.Option(help="A file of mock accelerators; several make several agents.")
]


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")] = None,
    port: Port = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="The certificate, with its chain, in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, in PEM.")] = None,
    behind_proxy: BehindProxy = False,
    single_trust_domain: SingleTrustDomain = False,
    allowed_host: AllowedHosts = None,
    data_folder: Annotated[Path | None, typer.Option(help="Where state, token and job files are.")] = None,
    database: Database = None,
    address: Address = None,
    accelerators: Accelerators = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Take two mock nodes with eight H100 each, even where there are real GPUs.")
    ] = False,
    no_local_agents: Annotated[bool, typer.Option("--no-local-agents", help="Run no agents in the server.")] = False,
    executor: Annotated[str | None, typer.Option(help="local or ray: where agents are.")] = None,
    ray_head: Annotated[str | None, typer.Option(help="HOST:PORT of the Ray cluster's head.")] = None,
    ray_token_file: Annotated[Path | None, typer.Option(help="The file with Ray's token.")] = None,
    job_user: Annotated[str | None, typer.Option(help="The Unix account that jobs run as.")] = None,
    allow_root_jobs: Annotated[bool, typer.Option("--allow-root-jobs", help="Let jobs run as root.")] = False,
    stopped: Stopped = False,
    scheduling_policy: SchedulingPolicy = None,
    keep: Keep = None,
    max_queue_size: Annotated[int | None, typer.Option(help="Tasks that may wait.", show_default="100000")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="console or json.")] = None,
) -> None:
    """Run the server until it is told to stop. Jobs go on without it, and are found again at the next start."""
    # What is made while the server starts stays: looking through it for garbage takes a fifth of the time.
    gc.disable()
    raise typer.Exit(
        _code(
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
            demo=demo,
            local_agents=None if not no_local_agents else "no",
            executor=executor,
            ray_head=ray_head,
            ray_token_file=ray_token_file,
            job_user=job_user,
            allow_root_jobs=allow_root_jobs,
            orchestration_enabled=None if not stopped else "no",
            scheduling_policy=scheduling_policy,
            keep=keep or (),
            max_queue_size=max_queue_size,
            log_level=log_level,
            log_format=log_format,
        )
    )


def _code(*, keep: Sequence[str], **flags: Any) -> int:
    from aliquot.errors import ConfigurationError
    from aliquot.settings import read_settings
    from aliquot_schema.errors import AliquotError

    try:
        return _run(read_settings(**flags, **_kept(keep)))
    except (ConfigurationError, AliquotError) as error:
        print(f"aliquot cannot start: {error}", file=sys.stderr)
        return 2


def _kept(given: Sequence[str]) -> dict[str, str]:
    """The settings that are meant, by name.

    Raises:
        ConfigurationError: one is of no kind, or says no period.
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


def _run(settings: "Settings") -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_serve(settings))
    return uvloop.run(_serve(settings))


async def _serve(settings: "Settings") -> int:
    from aliquot.app import serving
    from aliquot.cli.garbage import PatientCollector
    from aliquot.cli.listener import Listener, bound_socket, certificate_of
    from aliquot.composition.logs import set_up_logs

    # httpx would log the address of each request, and the address of a receiver can be a secret.
    quiet = ("alembic", "httpcore", "httpx", "uvicorn")
    set_up_logs(level=settings.log_level, form=settings.log_format, quiet=quiet)
    logging.getLogger("uvicorn.error").addFilter(_is_no_farewell)
    certificate = certificate_of(settings)
    with bound_socket(settings) as taken:
        async with serving(settings) as server:
            PatientCollector().begin()
            listener = Listener(
                server,
                certificate=certificate,
                behind_proxy=settings.behind_proxy,
                on_started=lambda port: _greet(port, server, settings),
            )
            await listener.serve_until(server.failed, taken=taken)
            code = 1 if server.failed.is_set() or not listener.started else 0
    print("Aliquot has stopped. Sessions that run go on, and are found again at the next start.", flush=True)
    return code


def _is_no_farewell(record: logging.LogRecord) -> bool:
    """False for a request that was cut off because the server stops, which is no error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _greet(port: int, server: "Server", settings: "Settings") -> None:
    address = settings.model_copy(update={"port": port}).own_address
    print(f"Aliquot is up, with {server.devices_found}.")
    print(f"  in a browser   {address}/login?code={server.auth.new_login_code()}   (works once)")
    print(f"  GraphQL        {address}/graphql   (Authorization: Bearer and the token in {server.token_file})")
    print(f"  data           {settings.data_folder}", flush=True)
