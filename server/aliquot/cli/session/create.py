"""`aliquot session create`: submits a command, or a script with directives.

The directives of a script are options that are put before those of the command line, which therefore win.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand

from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.groups import command_of
from aliquot.cli.session import options as o
from aliquot.cli.session.options import (
    apps_of,
    dependencies_of,
    echo_durations,
    pairs_of,
    priority_of,
    seconds_of,
    slots_of,
)
from aliquot.cli.session.script import Script, ScriptError
from aliquot.cli.session.slurm import SlurmError, array_fields
from aliquot.cli.working_directory import environments_of, synced

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.enums import Topology
    from aliquot.client.generated.inputs import (
        CreateSessionInput,
        MetricInput,
        PreflightInput,
        SecretUseInput,
        SessionLimitsInput,
    )


OWN_CHECK: Final = "default"
"""Word for the agent's own check."""
SCRIPT: Final = "aliquot.script"
"""Key of the script in the context's `meta`; absent for a command after `--`."""


class CreateCommand(TyperCommand):
    """A command whose options may also come from directives of a script."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the script's directives, then the command line."""
        given = {} if ctx.resilient_parsing else self._given(ctx, args)
        words = list(given.get("command") or ())
        is_command = len(words) < len(args) and args[len(args) - len(words) - 1] == "--"
        if words and not is_command:
            ctx.meta[SCRIPT] = script = _read(Path(words[0]), parse=partial(self._given, ctx))
            # A limit in --array replaces the one of the script's own array.
            limit = (given.get("array") or "").partition("%")[2]
            args = [*script.words_beside(given), *(["--max-parallel", limit] if limit.isdecimal() else []), *args]
        return super().parse_args(ctx, args)

    def _given(self, ctx: Any, args: list[str]) -> dict[str, Any]:
        """The options of the command line; `command` is the words from the first one on that is not an option."""
        return self.make_parser(ctx).parse_args(args=list(args))[0]


def _read(path: Path, *, parse: Callable[[list[str]], dict[str, Any]]) -> Script:
    try:
        return Script.read(path).checked(parse)
    except (ScriptError, SlurmError) as error:
        usage(str(error))


def limits_of(processes: int | None, open_files: int | None) -> "SessionLimitsInput | None":
    """The limits; None without both options."""
    from aliquot.client.generated.inputs import SessionLimitsInput

    if processes is None and open_files is None:
        return None
    return SessionLimitsInput(processes=processes, open_files=open_files)


def preflight_of(command: str | None, limit: str | None) -> "PreflightInput | None":
    """The check before the command; None without the options."""
    from aliquot.client.generated.inputs import CommandInput, PreflightInput

    limit_s = seconds_of(limit, option="--preflight-limit")
    if command is None:
        return None if limit_s is None else usage("--preflight-limit needs --preflight")
    own = None if command == OWN_CHECK else CommandInput(shell=command)
    return PreflightInput(command=own) if limit_s is None else PreflightInput(command=own, time_limit=limit_s)


def topology_of(text: str) -> "Topology":
    """How near to each other the kernels have to be."""
    from aliquot.client.generated.enums import Topology

    return Topology(text)


def secrets_of(variables: Sequence[str] | None, files: Sequence[str] | None) -> "list[SecretUseInput] | None":
    """Read `NAME`, `NAME=VARIABLE` and `NAME=FILE`; None when there are none."""
    from aliquot.client.generated.inputs import SecretUseInput

    found = [SecretUseInput(name=name, as_env=given) for name, given in map(_named, variables or ())]
    found += [SecretUseInput(name=name, as_file=given) for name, given in map(_named, files or ())]
    return found or None


def metrics_of(texts: Sequence[str] | None) -> "list[MetricInput] | None":
    """Read `NAME=PATTERN`; None when there are none."""
    from aliquot.client.generated.inputs import MetricInput

    found = pairs_of(texts, option="--metric")
    return None if found is None else [MetricInput(name=one.name, pattern=one.value) for one in found]


def _named(text: str) -> tuple[str, str]:
    name, _, given = text.partition("=")
    return name, given or name


OWN_OPTIONS: Final = frozenset({"--wait", "--follow", "--preview", "--json", "--hold", "--gpus"})
"""Options that are more likely meant for this command than for a script."""

HELP: Final = """Submit a session: a command after --, or a script with #ALIQUOT (or #SBATCH) lines at its head.

Prints its id. With --wait or --follow the exit code is 0 when it completed and 1 when it failed or was canceled;
2: the command line is wrong, 3: it was refused, 4: the server is unreachable, 130: interrupted."""


def create(
    ctx: typer.Context,
    command: o.Command = None,
    gpus: o.Gpus = None,
    resources: o.Resources = None,
    cluster_size: o.ClusterSize = 1,
    cluster_size_min: o.ClusterSizeMin = None,
    gpu_memory: o.GpuMemory = None,
    model: o.Models = None,
    name: o.Name = None,
    run_id: o.RunId = None,
    tag: o.Tags = None,
    metric: o.Metrics = None,
    idempotency_key: o.IdempotencyKey = None,
    project: o.Project = None,
    pool: o.Pool = None,
    label: o.Labels = None,
    topology: o.Topology = "prefer",
    chdir: o.WorkingDirectory = None,
    image: o.Image = None,
    preflight: o.Preflight = None,
    preflight_limit: o.PreflightLimit = None,
    shared: o.Shared = False,
    sync: o.Sync = None,
    workspace: o.Workspace = None,
    env: o.Environments = None,
    secret: o.Secrets = None,
    secret_file: o.SecretFiles = None,
    sandbox: o.Sandbox = False,
    max_processes: o.Processes = None,
    max_open_files: o.OpenFiles = None,
    priority: o.Priority = "normal",
    time_limit: o.TimeLimit = None,
    estimate: o.Estimate = None,
    array: o.Array = None,
    max_parallel: o.MaxParallel = None,
    after: o.After = None,
    after_any: o.AfterAny = None,
    after_failed: o.AfterFailed = None,
    retries: o.Retries = 0,
    retry_own_failures: o.RetriesOwn = False,
    preemptible: o.Preemptible = False,
    checkpoint_signal: o.CheckpointSignal = None,
    checkpoint_every: o.CheckpointEvery = None,
    grace: o.Grace = None,
    booking: o.Booking = None,
    app: o.Apps = None,
    hold: o.Hold = False,
    wait: o.Wait = False,
    follow: o.Follow = False,
    raw: o.Raw = False,
    preview: o.Preview = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    from aliquot.client.generated.inputs import CommandInput, CreateSessionInput

    env, activates = environments_of(env)
    wanted = CreateSessionInput(
        depends_on=dependencies_of(ok=after, ended=after_any, failed=after_failed), checkpoint_signal=checkpoint_signal,
        working_directory=None if chdir is None else str(chdir.absolute()), secrets=secrets_of(secret, secret_file),
        command=CommandInput(argv=_argv(ctx, command)), retries_own_failures=retry_own_failures, max_retries=retries,
        idempotency_key=idempotency_key, priority=priority_of(priority), topology=topology_of(topology), run_id=run_id,
        sandbox=o.sandbox_of(sandbox), cluster_size=cluster_size, gpu_memory_gb=gpu_memory, project=project, pool=pool,
        preemptible=preemptible, **array_fields(array, max_parallel), models=model, held=hold, booking=booking,
        **_durations(time_limit, estimate, grace, checkpoint_every), limits=limits_of(max_processes, max_open_files),
        cluster_size_min=cluster_size_min, **_pairs_in(tag, label, env, metric), name=name, image=image,
        slots=slots_of(resources, gpus=gpus), apps=apps_of(app), activates=activates, workspace=workspace,
        shares_access=shared, preflight=preflight_of(preflight, preflight_limit),
    )  # fmt: skip
    place = (cluster, server, token_file)
    _send(ctx, wanted, place, sync=sync, wait=wait, follow=follow, raw=raw, preview=preview, json=as_json)


def _durations(
    time_limit: str | None, estimate: str | None, grace: str | None, checkpoint_every: str | None
) -> dict[str, Any]:
    """Fields of the input, in seconds."""
    return {
        "time_limit": seconds_of(time_limit, option="--time-limit"),
        "estimated_duration": seconds_of(estimate, option="--estimate"),
        "grace": seconds_of(grace, option="--grace"),
        "checkpoint_every": seconds_of(checkpoint_every, option="--checkpoint-every"),
    }


def _pairs_in(
    tag: list[str] | None, label: list[str] | None, env: list[str] | None, metric: list[str] | None
) -> dict[str, Any]:
    """Fields of the input, as names and values."""
    return {
        "tags": pairs_of(tag, option="--tag"),
        "labels": pairs_of(label, option="--label"),
        "environment": pairs_of(env, option="-e"),
        "metrics": metrics_of(metric),
    }


def _send(
    ctx: typer.Context,
    wanted: "CreateSessionInput",
    place: tuple[str | None, str | None, Path | None],
    *,
    sync: Path | None,
    wait: bool,
    follow: bool,
    raw: bool,
    preview: bool,
    json: bool,
) -> None:
    """Submit the request; `place` is the cluster, the server and the token file of the command line. A preview uploads
    nothing."""
    from aliquot.cli.session.submit import submit

    cluster, server, token_file = place
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        wanted = synced(client, wanted, None if preview else sync)
        submit(client, _ready(ctx, client, wanted), wait=wait, follow=follow, raw=raw, preview=preview, as_json=json)


def _ready(ctx: typer.Context, client: "BlockingClient", wanted: "CreateSessionInput") -> "CreateSessionInput":
    """The request with the ids of the sessions that it names, the pool of a partition, and the variables of Slurm."""
    from msgspec.structs import replace

    from aliquot.cli.session.names import find_dependencies

    depends_on = find_dependencies(client, wanted.depends_on, name=wanted.name)
    return _as_script(ctx, replace(wanted, depends_on=depends_on, pool=_pool(ctx, client, wanted.pool)))


def _pool(ctx: typer.Context, client: "BlockingClient", partition: str | None) -> str | None:
    """The pool for the partition of a Slurm script: the first of its names that is a pool. In a cluster with one pool
    another name is ignored, with a warning; the server refuses it otherwise."""
    script: Script | None = ctx.meta.get(SCRIPT)
    if partition is None or script is None or not script.is_for_slurm:
        return partition
    pools = [pool.name for pool in client.pools()]
    found = next((name for name in partition.split(",") if name in pools), None)
    if found is None and len(pools) == 1:
        words = f"#SBATCH --partition={partition} is ignored: this cluster has one pool, {pools[0]}"
        print(f"aliquot: {script.name}: {words}", file=sys.stderr)
        return None
    return found or partition


def _argv(ctx: typer.Context, command: list[str] | None) -> tuple[str, ...]:
    if not command:
        usage("there is no command: give a script, or a command after --")
    script: Script | None = ctx.meta.get(SCRIPT)
    return tuple(command) if script is None else script.command(tuple(command[1:]))


def _as_script(ctx: typer.Context, wanted: "CreateSessionInput") -> "CreateSessionInput":
    """Print how durations were read and which directives are ignored; add the variables that Slurm scripts expect."""
    from msgspec.structs import replace

    from aliquot.cli.session.slurm import known_at_submission
    from aliquot.client.generated.inputs import NameValueInput

    echo_durations(**{name: ctx.params.get(name) for name in ("time_limit", "estimate", "grace", "checkpoint_every")})
    script: Script | None = ctx.meta.get(SCRIPT)
    if script is None:
        return wanted
    for note in (*script.notes, *_misplaced(wanted.command.argv or ())):
        print(f"aliquot: {script.name}: {note}", file=sys.stderr)
    if not script.is_for_slurm:
        return wanted
    given = wanted.environment or ()
    known = known_at_submission(wanted, folder=str(Path.cwd()))
    added = [NameValueInput(name=name, value=value) for name, value in known.items()]
    return replace(wanted, environment=[*added, *given])


def _misplaced(argv: Sequence[str]) -> Iterator[str]:
    """Notes on options of this command that were given to the script."""
    for word in argv:
        if word in OWN_OPTIONS:
            yield f"{word} is passed to the script, because it comes after it; options of aliquot are before the script"


# No interspersed options: words after a script are the script's, even if they look like options.
create_command: Final = command_of(
    create, "create", cls=CreateCommand, help=HELP, context_settings={"allow_interspersed_args": False}
)
