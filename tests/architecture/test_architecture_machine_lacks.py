"""Missing tools are reported once and their tests skipped; in CI they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import machine_lacks
from architecture_sources import ROOT

TESTS = """
import pytest
from machine_lacks import check_npm_registry
from store_postgres import postgres_cluster

@pytest.fixture(scope="session")
def postgres():
    with postgres_cluster() as cluster:
        yield cluster

@pytest.mark.parametrize("number", range(3))
def test_database(postgres, number):
    assert postgres

@pytest.mark.parametrize("number", range(2))
def test_dashboard(number):
    check_npm_registry("npm error code ENOTFOUND")

def test_else():
    check_npm_registry("npm error code ELIFECYCLE")
"""
AS_ROOT = """
import os, pwd, shutil
def unknown(name):
    raise KeyError(name)
os.geteuid, pwd.getpwnam, shutil.which = (lambda: 0), unknown, (lambda name: None)
"""


def outcome_of(folder: Path, *, strict: bool) -> str:
    """Pytest's output for these tests, where root has no `useradd` and npm no registry."""
    (folder / "test_lacking.py").write_text(AS_ROOT + TESTS, encoding="utf-8")
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT / 'tests' / 'support'}\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != machine_lacks.STRICT}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", folder],
        cwd=folder,
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | ({machine_lacks.STRICT: "1"} if strict else {}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_tests_are_skipped_with_one_line_for_each_missing_requirement(tmp_path: Path) -> None:
    printed = outcome_of(tmp_path, strict=False)
    skips = [line for line in printed.splitlines() if line.startswith("SKIPPED")]
    assert [line.split()[1] for line in skips] == ["[3]", "[2]"], printed
    assert "useradd is not on PATH" in skips[0]
    assert "npm cannot reach its registry" in skips[1]
    assert "1 passed, 5 skipped" in printed


def test_tests_with_missing_requirements_fail_in_ci(tmp_path: Path) -> None:
    printed = outcome_of(tmp_path, strict=True)
    assert "2 failed, 1 passed, 3 errors" in printed
    assert f"export {machine_lacks.STRICT}=1\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_an_account_that_exists_needs_no_useradd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(machine_lacks, "POSTGRES_ACCOUNT", "root")
    machine_lacks.check_postgres_account()
