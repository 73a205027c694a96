"""`aliquot simulate`: runs the scheduler over a trace of jobs, or over a server's own history."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins
from typer import Argument, Option

if TYPE_CHECKING:
    from aliquot.cli.simulation.rows import Row
    from aliquot.cli.simulation.source import Source
    from aliquot.core.simulation.report import Outcome


Trace = Annotated[
    Path | None, Argument(help="CSV or Parquet: submit_s, duration_s, gpus, ...; or the folder of an archive.")
]
Server = Annotated[
    str | None, Option(metavar="URL", help="Run the ended sessions of this server instead, like http://host:8090.")
]
TokenFile = Annotated[Path | None, Option(help="The server's token.", show_default="that of a server on this host")]
Save = Annotated[Path | None, Option(metavar="FILE", help="Write the jobs to this .csv or .parquet.")]
Gpus = Annotated[int | None, Option(min=1, help="A cluster of N interchangeable GPUs.")]
GpusEach = Annotated[
    int | None,
    Option(min=1, help="With --gpus: on nodes with N GPUs each. A wider job becomes a gang of equal kernels."),
]
Nodes = Annotated[
    Path | None, Option(metavar="FILE", help="A cluster as CSV or Parquet with node, gpus, cpu_milli, ...")
]
FromS = Annotated[int | None, Option(metavar="SECONDS", help="Leave out jobs submitted earlier.")]
UntilS = Annotated[int | None, Option(metavar="SECONDS", help="Leave out jobs submitted then or later.")]
SkipUnfitting = Annotated[bool, Option("--skip-unfitting", help="Leave out jobs that the empty cluster cannot run.")]
Orders = Annotated[
    list[str] | None, Option("--policy", "--order", metavar="ORDER", help="Order of the queue; a row for each.")
]
PolicyFiles = Annotated[list[Path] | None, Option(help="A policy in YAML; a row for each.")]
Backfills = Annotated[
    list[str] | None,
    Option(metavar="POLICY", help="Which jobs may start before the head of the queue; a row for each."),
]
Placements = Annotated[list[str] | None, Option(metavar="STRATEGY", help="Placement strategy; a row for each.")]
EstimatesName = Annotated[
    str, Option(help="Run times for the scheduler: predicted, none, or exact, which no real scheduler has.")
]
CheckpointEvery = Annotated[
    str | None,
    Option(
        metavar="DURATION",
        help="Work between checkpoints, like 30m; a number is seconds. Without it preempted jobs start over.",
    ),
]
References = Annotated[bool, Option("--references", help="Add rows: FCFS, EASY, and SJF by an oracle.")]
Plot = Annotated[Path | None, Option(metavar="FILE", help="Draw all rows on one page, .png or .svg.")]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object {row: figures}.")]


def simulate(
    trace: Trace = None,
    server: Server = None,
    token_file: TokenFile = None,
    save: Save = None,
    gpus: Gpus = None,
    gpus_each: GpusEach = None,
    nodes: Nodes = None,
    from_s: FromS = None,
    until_s: UntilS = None,
    skip_unfitting: SkipUnfitting = False,
    policy: Orders = None,
    policy_file: PolicyFiles = None,
    backfill: Backfills = None,
    placement: Placements = None,
    estimates: EstimatesName = "predicted",
    checkpoint_every: CheckpointEvery = None,
    references: References = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Run the scheduler over past jobs, and report their waiting and completion times under each policy."""
    from aliquot.cli.simulation.rows import Comparison
    from aliquot.cli.simulation.source import Source
    from aliquot.client import ClientFailure
    from aliquot_schema.errors import AliquotError

    try:
        source = Source(
            trace=trace,
            server=server,
            token_file=token_file,
            gpus=gpus,
            gpus_each=gpus_each,
            nodes=nodes,
            from_s=from_s,
            until_s=until_s,
            skips_unfitting=skip_unfitting,
        )
        chosen = Comparison(
            orders=policy or ([] if policy_file else ["fair_share"]),
            backfills=backfill or ["easy"],
            placements=placement or [source.placement],
            files=policy_file or (),
            estimates=estimates,
            checkpoint_ms=_checkpoint_ms(checkpoint_every),
            has_references=references,
        ).rows()
        _check_targets(save, plot)
        _print(_outcomes(source, chosen, save=save), plot=plot, as_json=as_json)
    except (AliquotError, ClientFailure) as error:
        print(f"aliquot cannot simulate this: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _checkpoint_ms(text: str | None) -> int | None:
    from aliquot_schema.errors import InvalidRequest
    from aliquot_schema.resources.units import parse_duration

    if text is None:
        return None
    seconds = parse_duration(text, field="--checkpoint-every")
    if seconds < 1:
        raise InvalidRequest(f"--checkpoint-every: {text} is less than 1 s", field="--checkpoint-every")
    return round(seconds * 1000)


def _check_targets(save: Path | None, plot: Path | None) -> None:
    if save is not None:
        from aliquot.cli.simulation.trace_saving import check_target

        check_target(save)
    if plot is not None:
        from aliquot.cli.simulation import rendering

        rendering.check_target(plot)


def _outcomes(source: "Source", chosen: Sequence["Row"], *, save: Path | None) -> dict[str, "Outcome"]:
    from aliquot.cli.simulation.rendering import bar
    from aliquot.core.simulation.run import simulate as run

    jobs, agents = source.read()
    if save is not None:
        from aliquot.cli.simulation.trace_saving import save_jobs

        save_jobs(jobs, save)
    found: dict[str, Outcome] = {}
    for row in chosen:
        with bar(row.label, total=len(jobs)) as on_progress:
            found[row.label] = run(jobs, agents, row.settings, on_progress=on_progress)
    return found


def _print(outcomes: dict[str, "Outcome"], *, plot: Path | None, as_json: bool) -> None:
    from aliquot.core.simulation.report import report

    reports = {label: report(outcome) for label, outcome in outcomes.items()}
    if as_json:
        print(json.dumps({label: to_builtins(made) for label, made in reports.items()}))
    else:
        from aliquot.cli.simulation.rendering import print_tables

        print_tables(reports)
    if plot is not None:
        from aliquot.cli.simulation.rendering import save_plots

        save_plots(outcomes, plot)
