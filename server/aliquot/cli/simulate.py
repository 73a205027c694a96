"""`aliquot simulate`: what the scheduler would have made of a trace, or of a server's own history."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from aliquot.cli.simulation.rows import Row
    from aliquot.cli.simulation.source import Source
    from aliquot.core.simulation.outcome import Outcome

Trace = Annotated[
    Path | None, Argument(help="CSV or Parquet: submit_s, duration_s, gpus, ...; or the folder of an archive.")
]
Server = Annotated[str | None, Option(help="Take the ended sessions of this server instead, like http://host:8090.")]
TokenFile = Annotated[Path | None, Option(help="The server's token.", show_default="that of a server on this host")]
Save = Annotated[Path | None, Option(help="Write the jobs to this .csv or .parquet.")]
Gpus = Annotated[int | None, Option(min=1, help="A cluster of so many GPUs of which any will do.")]
GpusEach = Annotated[int | None, Option(min=1, help="With --gpus: on nodes with so many each.")]
Nodes = Annotated[Path | None, Option(help="A cluster as it is: CSV or Parquet with node, gpus, cpu_milli, ...")]
FromS = Annotated[int | None, Option(help="Leave out jobs submitted before.")]
UntilS = Annotated[int | None, Option(help="Leave out jobs submitted then or later.")]
SkipUnfitting = Annotated[bool, Option("--skip-unfitting", help="Leave out jobs that the empty cluster cannot run.")]
Orders = Annotated[list[str] | None, Option("--policy", "--order", help="Who is next; several make several rows.")]
PolicyFiles = Annotated[list[Path] | None, Option(help="A policy as YAML, a row of its own; several make several.")]
Backfills = Annotated[list[str] | None, Option(help="Who may pass the head of the queue; several make several rows.")]
Placements = Annotated[list[str] | None, Option(help="Where jobs go; several make several rows.")]
EstimatesName = Annotated[str, Option(help="predicted, none, or exact: what no scheduler can know.")]
CheckpointEvery = Annotated[
    float | None, Option(min=1, help="Seconds of work between checkpoints; else preempted jobs begin anew.")
]
References = Annotated[bool, Option("--references", help="Add rows: FCFS, EASY, and SJF by an oracle.")]
Plot = Annotated[Path | None, Option(help="Draw all rows on one page, .png or .svg.")]
AsJson = Annotated[bool, Option("--json", help="Print one object {row: figures}.")]


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
    """Run the scheduler over jobs, and report how long they would have waited."""
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
            checkpoint_ms=None if checkpoint_every is None else round(checkpoint_every * 1000),
            has_references=references,
        ).rows()
        _check_targets(save, plot)
        _show(_outcomes(source, chosen, save=save), plot=plot, as_json=as_json)
    except (AliquotError, ClientFailure) as error:
        print(f"aliquot cannot simulate this: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _check_targets(save: Path | None, plot: Path | None) -> None:
    if save is not None:
        from aliquot.cli.simulation.trace_saving import check_target

        check_target(save)
    if plot is not None:
        from aliquot.cli.simulation import plots

        plots.check_target(plot)


def _outcomes(source: "Source", chosen: Sequence["Row"], *, save: Path | None) -> dict[str, "Outcome"]:
    from aliquot.cli.simulation.progress import bar
    from aliquot.core.simulation.run import simulate as run

    jobs, agents = source.read()
    if save is not None:
        from aliquot.cli.simulation.trace_saving import save_jobs

        save_jobs(jobs, save)
    found: dict[str, Outcome] = {}
    for row in chosen:
        with bar(row.label, total=len(jobs)) as tell:
            found[row.label] = run(jobs, agents, row.settings, on_progress=tell)
    return found


def _show(outcomes: dict[str, "Outcome"], *, plot: Path | None, as_json: bool) -> None:
    from aliquot.core.simulation.report import report

    reports = {label: report(outcome) for label, outcome in outcomes.items()}
    if as_json:
        print(json.dumps({label: asdict(made) for label, made in reports.items()}))
    else:
        from aliquot.cli.simulation.tables import print_tables

        print_tables(reports)
    if plot is not None:
        from aliquot.cli.simulation.plots import save_plots

        save_plots(outcomes, plot)
