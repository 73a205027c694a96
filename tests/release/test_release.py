"""Release files: built by their own script into a folder, and tried there."""

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from machine_lacks import check_npm_registry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("a release carries the dashboard, and npm is not here to build it")
    folder = tmp_path_factory.mktemp("release")
    done = subprocess.run(
        [ROOT / "scripts" / "release", "--no-audit", folder], capture_output=True, text=True, timeout=600
    )
    if done.returncode != 0:
        check_npm_registry(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "its server and dashboard answered" in done.stderr
    return folder


def test_the_wheel_holds_both_packages_the_dashboard_and_nothing_of_the_tests(release: Path) -> None:
    (wheel,) = release.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"aliquot", "aliquot_schema"}
    assert "aliquot/dashboard_dist/index.html" in names
    assert not [name for name in names if name.endswith((".map", ".pyc"))]


def test_the_bills_of_materials_name_what_is_shipped(release: Path) -> None:
    (python,) = release.glob("*-python.cdx.json")
    (dashboard,) = release.glob("*-dashboard.cdx.json")
    for bill, named in ((python, {"starlette", "strawberry-graphql", "asyncpg"}), (dashboard, {"react", "graphiql"})):
        told = json.loads(bill.read_text(encoding="utf-8"))
        assert told["bomFormat"] == "CycloneDX"
        assert named <= {part["name"] for part in told["components"]}
        assert not {"pytest", "vite", "vitest"} & {part["name"] for part in told["components"]}


def test_every_file_has_its_checksum(release: Path) -> None:
    done = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=release)
    assert done.returncode == 0
