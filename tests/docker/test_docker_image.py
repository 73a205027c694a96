"""Contents of the images, which run from any folder."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from docker_image import Stage


def test_the_server_image_contains_runtime_packages_only(images: Mapping[str, Stage]) -> None:
    listed = _python(images["server"], "import importlib.metadata as m; print(*(d.name for d in m.distributions()))")
    names = set(listed.lower().split())
    assert {"aliquot", "numpy", "pyarrow", "asyncpg"} <= names
    assert not names & {"pytest", "mypy", "ruff", "ray", "pip", "uv", "sphinx"}


def test_the_wheel_carries_the_dashboard_and_the_schema(images: Mapping[str, Stage]) -> None:
    where = _python(images["server"], "import aliquot, aliquot_schema; print(aliquot.__path__[0])").strip()
    assert (Path(where) / "dashboard_dist" / "index.html").is_file()
    assert where.startswith(images["server"].root.as_posix())


def test_the_command_runs_from_any_folder(images: Mapping[str, Stage], tmp_path: Path) -> None:
    server = images["server"]
    shown = subprocess.run(
        ["aliquot", "--version"], cwd=tmp_path, env=server.variables(), capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("aliquot ")


def test_the_health_check_commands_of_the_images_run(images: Mapping[str, Stage], tmp_path: Path) -> None:
    for name, code in (("server", 4), ("agent", 1)):
        stage = images[name]
        words = json.loads(stage.words["HEALTHCHECK"])
        variables = stage.variables() | {"ALIQUOT_SERVER": "http://127.0.0.1:9"}
        done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == code, done.stderr


def _python(stage: Stage, code: str) -> str:
    done = subprocess.run(
        [f"{stage.root}/opt/aliquot/bin/python", "-c", code],
        cwd="/",
        env=stage.variables(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
