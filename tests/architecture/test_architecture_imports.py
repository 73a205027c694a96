"""Which modules may import which, and which are imported only when needed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from architecture_sources import ROOT, SERVER, modules, place, tree

SPAWNER = SERVER / "execution" / "agent" / "spawner"
HEAVY = ("aiosmtplib", "alembic", "asyncpg", "httpx", "pynvml", "ray", "rich")
NOT_AT_START = (
    *("aiosmtplib", "alembic", "asyncpg", "h11", "httpx", "ray", "rich"),
    *("argon2", "cryptography", "fsspec", "httpcore", "jwt", "matplotlib", "requests", "s3fs", "textual", "yaml"),
    *(
        "aliquot.api.apps.app_connection",
        "aliquot.api.apps.proxy",
        "aliquot.core.simulation.trace",
        "aliquot.demo",
        "aliquot_schema.graphql.client_codegen",
    ),
)
SERVER_START = """
import asyncio, sys
import aliquot.cli.listener
from aliquot.app.composition import serving
from aliquot.settings import read_settings
async def main():
    async with serving(read_settings(data_folder=sys.argv[1], local_agents=False)):
        print(*[name for name in sys.argv[2:] if name in sys.modules])
asyncio.run(main())
"""

NOT_IN_AN_AGENT = (
    *("fastapi", "graphql", "httpx", "numpy", "sqlalchemy", "sqlmodel", "starlette", "strawberry", "uvicorn"),
    *("aliquot.api.graphql", "aliquot.app.composition", "aliquot.core.scheduler", "aliquot.service.use_cases"),
)
AGENT_START = """
import sys
from aliquot.execution.remote.client import RemoteAgent
async def run(self, stop):
    print(*[name for name in sys.argv[1:] if name in sys.modules])
RemoteAgent.run = run
sys.argv[1:], command = sys.argv[2:], sys.argv[1].split()
from aliquot.cli import main
main(command)
"""


def test_layers_and_contracts_hold() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    outcome = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_spawner_needs_the_standard_library_alone() -> None:
    """It is run by `python -I -S -E`, which finds nothing else."""
    paths = modules(SPAWNER)
    own = {path.stem for path in paths}
    foreign = [
        f"{place(path, node)} {name}"
        for path in paths
        for node in ast.walk(tree(path))
        for name in _imported(node)
        if name not in sys.stdlib_module_names and name not in own
    ]
    assert foreign == []


def test_the_schema_imports_only_msgspec_outside_its_graphql_package() -> None:
    folder = ROOT / "schema" / "aliquot_schema"
    foreign = [
        f"{place(path, node)} {name}"
        for path in modules(folder)
        if folder / "graphql" not in path.parents
        for node in ast.walk(tree(path))
        for name in _imported(node)
        if name not in sys.stdlib_module_names and name not in ("aliquot_schema", "msgspec")
    ]
    assert foreign == []


@pytest.mark.parametrize("module", ["aliquot.app.composition", "aliquot.cli"])
def test_startup_does_not_import_heavy_modules(module: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.split() == []


def test_a_server_starts_without_its_optional_libraries(tmp_path: Path) -> None:
    """The first start makes the tables, with alembic; the second is the usual one."""
    for unwanted in (set(NOT_AT_START) - {"alembic"}, NOT_AT_START):
        command = [sys.executable, "-c", SERVER_START, str(tmp_path / "data"), *unwanted]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert outcome.returncode == 0, outcome.stderr
        assert outcome.stdout.split() == []


def test_an_agent_does_not_import_server_libraries(tmp_path: Path) -> None:
    """It runs on every node beside the jobs: modules that it does not import cost them no memory."""
    key = tmp_path / "key"
    key.write_text("agk_" + "0" * 64)
    key.chmod(0o600)
    words = (
        f"agent --server http://127.0.0.1:9 --key-file {key} --demo-node 1 --data-folder {tmp_path} --allow-root-jobs"
    )
    command = [sys.executable, "-c", AGENT_START, words, *NOT_IN_AN_AGENT]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (outcome.returncode, outcome.stdout.split()) == (0, []), outcome.stderr


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0]]
    return []
