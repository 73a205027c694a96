"""The page of results, and the packages that a run of Slurm lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.append(str(FOLDER))

import page  # noqa: E402 # the path is set above
from registry import Key  # noqa: E402

KEPT = FOLDER.parents[1] / "server" / "docs" / "benchmarks.md"
EMPTY = "a\n<!-- figures -->\n<!-- end of figures -->\nb\n<!-- slurm -->\n<!-- end of slurm -->\nc\n"
KEYS = [Key(name=name, what=f"what {name} is", reach="<= 1") for name in ("one", "two")]


def figures(text: str, measured: dict[str, float], *, machine: str = "2 cores", keys: list[Key] = KEYS) -> str:
    return page.with_figures(text, measured, keys=keys, machine=machine, circumstances="2026-01-01")


def test_a_row_stays_until_it_is_measured_again() -> None:
    text = figures(figures(figures(EMPTY, {"two": 2.0}), {"one": 0.5}), {"two": 0.25})
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [
        "| `one` | what one is | 0.5 | <= 1 | yes | 2026-01-01 |",
        "| `two` | what two is | 0.25 | <= 1 | yes | 2026-01-01 |",
    ]
    assert text.startswith("a\n")
    assert text.endswith("\nb\n<!-- slurm -->\n<!-- end of slurm -->\nc\n")


def test_a_missed_benchmark_target_is_marked() -> None:
    assert "| 2 | <= 1 | **no** |" in figures(EMPTY, {"one": 2.0})


def test_figures_of_another_machine_do_not_stay() -> None:
    text = figures(figures(EMPTY, {"one": 0.5}), {"two": 2.0}, machine="64 cores")
    assert "`one`" not in text
    assert "2 cores" not in text


def test_a_removed_benchmark_has_no_row() -> None:
    assert "`one`" not in figures(figures(EMPTY, {"one": 0.5}), {"two": 2.0}, keys=KEYS[1:])


def test_a_new_comparison_replaces_the_previous_one() -> None:
    table = [["", "Aliquot", "Slurm"], ["list", "1", "2"]]
    once = page.with_comparison(EMPTY, told="then", table=[*table, ["restart", "3", "4"]], notes=["honest"])
    text = page.with_comparison(once, told="now", table=table, notes=["honest"])
    assert "|  | Aliquot | Slurm |\n|---|---|---|\n| list | 1 | 2 |\n\n* honest\n" in text
    assert "then" not in text
    assert "restart" not in text


def test_the_benchmark_page_has_all_its_placeholders() -> None:
    page.kept(KEPT)


def test_a_benchmark_page_without_placeholders_is_refused_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("no place", encoding="utf-8")
    with pytest.raises(ValueError, match="figures"):
        page.kept(tmp_path / "page.md")


def test_without_slurm_its_packages_are_named_and_nothing_is_installed(tmp_path: Path) -> None:
    asked = [sys.executable, "-c", MISSING]
    outcome = subprocess.run(
        asked, env={**os.environ, "PATH": str(tmp_path)}, cwd=FOLDER, capture_output=True, text=True, check=True
    )
    assert outcome.stdout.split() == ["munge", "slurm-client", "slurmctld", "slurmd"]


MISSING = """
from slurm import programs
programs.SYSTEM_FOLDERS = ""
print(*programs.missing_packages())
"""
