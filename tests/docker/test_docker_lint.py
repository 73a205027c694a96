"""Images, compose and units, checked by their own tools."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from aliquot.settings import Settings, kebab
from docker_image import DOCKERFILE, ROOT

DOCKER = ROOT / "docker"
UNITS = sorted((DOCKER / "systemd").iterdir())


def test_the_dockerfile_has_nothing_that_hadolint_warns_of() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    if not hadolint.exists():
        pytest.skip("hadolint is made for x86-64 alone")
    done = subprocess.run([hadolint, "--failure-threshold", "warning", DOCKERFILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_base_images_are_pinned() -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    others = [one["image"] for one in compose["services"].values() if not one["image"].startswith("aliquot-")]
    bases = re.findall(r"^ARG \w+=(.+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    for image in [*others, *bases]:
        assert re.search(r":v?\d+\.\d+\S*@sha256:[0-9a-f]{64}$", image), image


def test_units_are_understood_by_systemd(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not here")
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace("/opt/aliquot/bin/aliquot", sys.executable)
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *(tmp_path / unit.name for unit in UNITS)],
        capture_output=True,
        text=True,
    )
    ours = [line for line in done.stderr.splitlines() if "aliquot" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit.suffix == ".service"], ids=lambda unit: unit.name)
def test_systemd_units_do_not_stop_jobs_with_the_service(unit: Path) -> None:
    lines = unit.read_text(encoding="utf-8").splitlines()
    assert {"KillMode=process", "Delegate=yes", "OOMPolicy=continue", "Slice=aliquot.slice"} <= set(lines)
    assert any(line.startswith("LimitNOFILE=") for line in lines)
    # systemd sets the mode at each start, and jobs traverse this folder to reach their own.
    assert "StateDirectoryMode=0711" in lines


def test_an_agent_key_whose_file_was_lost_is_created_again(tmp_path: Path) -> None:
    """The server still has it, but no file does."""
    (tmp_path / "server").mkdir()
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ALIQUOT_DATA_FOLDER": str(tmp_path),
        "CONFIGURATION_FOLDER": str(tmp_path),
    }
    made = []
    for _ in range(2):
        subprocess.run(["sh", DOCKER / "prepare.sh", "keys", "node-1"], env=variables, check=True)
        made.append((tmp_path / "node-1.key").read_text(encoding="ascii"))
        (tmp_path / "node-1.key").write_bytes(b"")  # as after a full disk
    assert made[0] != made[1] != ""


def test_variables_set_by_compose_are_known_settings() -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    known = {f"ALIQUOT_{kebab(name).replace('-', '_').upper()}" for name in Settings.model_fields}
    known |= {"ALIQUOT_SERVER", "ALIQUOT_CA_FILE", "ALIQUOT_TOKEN_FILE"}
    for service in compose["services"].values():
        named = {name for name in service.get("environment", {}) if name.startswith("ALIQUOT_")}
        assert named <= known


def test_files_mounted_by_compose_exist() -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    mounts = [mount for one in compose["services"].values() for mount in one.get("volumes", [])]
    for mount in mounts:
        source = mount.split(":")[0]
        assert (DOCKER / source).exists() if source.startswith(".") else source in compose["volumes"], mount
