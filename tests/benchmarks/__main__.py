"""Measures: `scripts/bench [--only KEY[,KEY...]] [--json]`."""

import argparse
import asyncio
import json
import sys

import crash  # noqa: F401 # registers its scenario, as do the others
import failover  # noqa: F401
import fleet_reading  # noqa: F401
import full_pass  # noqa: F401
import full_queue  # noqa: F401
import history_size  # noqa: F401
import loop_block  # noqa: F401
import placement  # noqa: F401
import ray_loop  # noqa: F401
import ray_nodes  # noqa: F401
import reading  # noqa: F401
import start_latency  # noqa: F401
import submissions  # noqa: F401
import subscribers  # noqa: F401
import throughput  # noqa: F401
from machine import fork_s, fsync_p50_s
from registry import Scenario, chosen
from rich.console import Console
from rich.table import Table

import simulation  # noqa: F401


def main() -> int:
    """Run what was asked for, one after the other, and print it."""
    options = _options()
    names = frozenset(name for name in (options.only or "").split(",") if name)
    try:
        wanted = chosen(names)
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    measured: dict[str, float] = {}
    for one in wanted:
        print(f"measuring {', '.join(key.name for key in one.keys)} ...", file=sys.stderr, flush=True)
        measured |= asyncio.run(one.run())
    shown = {name: value for name, value in measured.items() if not names or name in names}
    if options.json:
        print(json.dumps(shown))
    else:
        _print_table(wanted, shown)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure a real server on this machine.")
    parser.add_argument("--only", metavar="KEY[,KEY...]", help="measure these alone")
    parser.add_argument("--json", action="store_true", help="print one object {KEY: value} and nothing else")
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
        table.add_row(key.name, key.what, f"[{style}]{_written(value)}[/]", key.reach)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _written(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
