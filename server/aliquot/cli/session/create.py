"""`aliquot session create`: submit a command, or a script."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from aliquot.cli.connection.asking import connected, usage
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.session import options as o
from aliquot.cli.session.confinement import limits_of, sandbox_of, secrets_of
from aliquot.cli.session.create_command import SCRIPT
from aliquot.cli.session.notation import dependencies_of, pairs_of, seconds_of, slots_of

if TYPE_CHECKING:
    from aliquot.cli.session.script import Script
    from aliquot.client.generated.inputs import CreateSessionInput

HELP: Final = """Submit a session: a command after --, or a script with #ALIQUOT (or #SBATCH) lines at its head.

Prints its id. With --wait or --follow the exit code is 0 when it completed and 1 when it failed or was canceled;
2: the words are wrong, 3: it was refused, 4: there is no server, 130: interrupted."""


def create(
    ctx: typer.Context,
    command: o.Command = None,
    resources: o.Resources = None,
    cluster_size: o.ClusterSize = 1,
    gpu_memory: o.GpuMemory = None,
    model: o.Models = None,
    name: o.Name = None,
    run_id: o.RunId = None,
    tag: o.Tags = None,
    idempotency_key: o.IdempotencyKey = None,
    project: o.Project = None,
    pool: o.Pool = None,
    label: o.Labels = None,
    chdir: o.WorkingDirectory = None,
    env: o.Environment = None,
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
    grace: o.Grace = None,
    hold: o.Hold = False,
    wait: o.Wait = False,
    follow: o.Follow = False,
    preview: o.Preview = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    from aliquot.cli.session.submitting import submit
    from aliquot.client.generated.inputs import CommandInput, CreateSessionInput

    wanted = CreateSessionInput(
        command=CommandInput(argv=_argv(ctx, command)), slots=slots_of(resources or ()), cluster_size=cluster_size,
        gpu_memory_gb=gpu_memory, models=model, name=name, run_id=run_id, tags=pairs_of(tag, option="--tag"),
        idempotency_key=idempotency_key, project=project, pool=pool, labels=pairs_of(label, option="--label"),
        working_directory=None if chdir is None else str(chdir.absolute()), environment=pairs_of(env, option="-e"),
        priority=priority, time_limit=seconds_of(time_limit, option="--time-limit"),
        estimated_duration=seconds_of(estimate, option="--estimate"), array=array, max_parallel=max_parallel,
        depends_on=dependencies_of(ok=after, ended=after_any, failed=after_failed), max_retries=retries,
        retries_own_failures=retry_own_failures, preemptible=preemptible, checkpoint_signal=checkpoint_signal,
        grace=seconds_of(grace, option="--grace"), held=hold, sandbox=sandbox_of(sandbox),
        limits=limits_of(max_processes, max_open_files), secrets=secrets_of(secret, secret_file),
    )  # fmt: skip
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        submit(client, _as_script(ctx, wanted), wait=wait, follow=follow, preview=preview, as_json=as_json)


def _argv(ctx: typer.Context, command: list[str] | None) -> tuple[str, ...]:
    if not command:
        usage("what is to run? Name a script, or put a command after --")
    script: Script | None = ctx.meta.get(SCRIPT)
    return tuple(command) if script is None else script.command(tuple(command[1:]))


def _as_script(ctx: typer.Context, wanted: "CreateSessionInput") -> "CreateSessionInput":
    """Say what of a script is ignored, and add the variables that one for Slurm looks for."""
    from msgspec.structs import replace

    from aliquot.cli.session.slurm_variables import known_at_submission
    from aliquot.client.generated.inputs import NameValueInput

    script: Script | None = ctx.meta.get(SCRIPT)
    if script is None:
        return wanted
    for note in script.notes:
        print(f"aliquot: {script.name}: {note}", file=sys.stderr)
    if not script.is_for_slurm:
        return wanted
    given = wanted.environment or ()
    known = known_at_submission(wanted, folder=str(Path.cwd()))
    added = [NameValueInput(name=name, value=value) for name, value in known.items()]
    return replace(wanted, environment=[*added, *given])
