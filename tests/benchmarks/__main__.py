"""Benchmarks: `scripts/bench [--only KEY[,KEY...]] [--json] [--slurm] [--page FILE]`."""

import argparse
import asyncio
import json
import os
import sys
import traceback
from collections.abc import Collection, Mapping
from pathlib import Path

import agent_fleet  # noqa: F401 # registers its scenario, as do the others
import crash  # noqa: F401
import explanations  # noqa: F401
import failover  # noqa: F401
import fleet_reading  # noqa: F401
import forecast
import forecast_engine  # noqa: F401
import full_pass  # noqa: F401
import full_queue  # noqa: F401
import history_size  # noqa: F401
import idle_gpus  # noqa: F401
import loop_block  # noqa: F401
import overlong_sessions  # noqa: F401
import page
import placement  # noqa: F401
import ray_loop  # noqa: F401
import ray_nodes  # noqa: F401
import reading  # noqa: F401
import start_latency  # noqa: F401
import submissions  # noqa: F401
import subscribers  # noqa: F401
import throughput  # noqa: F401
from machine import circumstances, description, fork_s, fsync_p50_s
from registry import Scenario, chosen, is_asked, scenarios, written
from rich.console import Console
from rich.table import Table
from slurm import comparison, programs

import simulation


def main() -> int:
    """Run the chosen scenarios in order, and print results."""
    options = _options()
    names = frozenset(name for name in (options.only or "").split(",") if name)
    try:
        wanted = chosen(names)
        if options.page:
            page.kept(options.page)
    except (KeyError, ValueError, OSError) as error:
        print(error.args[0] if isinstance(error, KeyError) else error, file=sys.stderr)
        return 2
    return _beside_slurm(options) if options.slurm else _measured(options, wanted, names)


def _measured(options: argparse.Namespace, wanted: tuple[Scenario, ...], names: frozenset[str]) -> int:
    """Returns 1 when a measurement failed; the other results of a long run are kept."""
    shown: dict[str, float] = {}
    code = 0
    for one in wanted:
        print(f"measuring {', '.join(key.name for key in one.keys)} ...", file=sys.stderr, flush=True)
        at_its_time = circumstances()
        try:
            found = asyncio.run(one.run())
        except Exception:
            traceback.print_exc()
            code = 1
            continue
        shown |= {name: value for name, value in found.items() if is_asked(name, names)}
        if options.page:
            _keep(options.page, shown=shown.keys() & found.keys(), found=found, circumstances=at_its_time)
            forecast.keep_page()
            simulation.keep_page()
    if options.json:
        print(json.dumps(shown))
    else:
        _print_table(wanted, shown)
    return code


def _keep(path: Path, *, shown: Collection[str], found: Mapping[str, float], circumstances: str) -> None:
    text = page.with_figures(
        page.kept(path),
        {name: found[name] for name in shown},
        keys=[key for one in scenarios() for key in one.keys],
        machine=description(),
        circumstances=circumstances,
    )
    path.write_text(text, encoding="utf-8")


def _beside_slurm(options: argparse.Namespace) -> int:
    if missing := programs.missing_packages():
        print(f"Slurm is not whole here; on Debian: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 3
    before = circumstances()
    figures = comparison.compare()
    told = f"{before}, afterwards load {os.getloadavg()[0]:.1f}; {description()}; {programs.version()}"
    rows = comparison.table(figures)
    if options.page:
        text = page.with_comparison(page.kept(options.page), told=told, table=rows, notes=comparison.NOTES)
        options.page.write_text(text, encoding="utf-8")
    if options.json:
        print(json.dumps(figures))
    else:
        table = Table(title=told, title_justify="left")
        for heading in rows[0]:
            table.add_column(heading, justify="right" if heading else "left")
        for row in rows[1:]:
            table.add_row(*row)
        _print(table, *comparison.NOTES)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure a real server on this machine.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--only", metavar="KEY[,KEY...]", help="measure these alone, or those that begin so")
    what.add_argument("--slurm", action="store_true", help="measure what Slurm does too, beside a Slurm started for it")
    parser.add_argument("--json", action="store_true", help="print one object {KEY: value} and nothing else")
    parser.add_argument("--page", metavar="FILE", type=Path, help="keep the figures in this page, row by row")
    return parser.parse_args()


def _print_table(wanted: tuple[Scenario, ...], shown: dict[str, float]) -> None:
    table = Table(
        title=f"this machine: fsync p50 {fsync_p50_s() * 1e3:.2f} ms, fork and exec {fork_s() * 1e3:.2f} ms",
        title_justify="left",
    )
    for heading in ("key", "what", "value", "to reach"):
        table.add_column(heading, justify="right" if heading in {"value", "to reach"} else "left")
    for key in (key for one in wanted for key in one.keys if key.name in shown):
        value = shown[key.name]
        style = "green" if key.is_reached(value) else "red"
        table.add_row(key.name, key.what, f"[{style}]{written(value)}[/]", key.reach)
    _print(table)


def _print(*parts: Table | str) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    for part in parts:
        console.print(part)


if __name__ == "__main__":
    sys.exit(main())
