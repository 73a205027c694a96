"""Runs the services of `docker/compose.yaml` as processes: the same commands, with other folders and ports."""

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from aliquot.client.requests import tls_context
from docker_image import ROOT, Stage
from own_processes import end

COMPOSE: Final = ROOT / "docker" / "compose.yaml"


class Composition:
    """The project's own services; each has the folder of its volume, and all share the configuration."""

    def __init__(self, folder: Path, *, images: Mapping[str, Stage], port: int, database: str) -> None:
        self._folder = folder
        self._images = images
        self._port = port
        self._database = database
        self.services: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
        self.configuration = folder / "configuration"
        self.configuration.mkdir()
        self._running = ExitStack()

    def run(self, service: str) -> None:
        """Run a service to its end."""
        self._finish(self._words(service), service)

    def start(self, service: str) -> None:
        """Start a service that runs until `stop`."""
        log = (self._folder / f"{service}.log").open("wb")
        self._running.enter_context(log)
        process = subprocess.Popen(
            self._words(service), env=self._variables(service), cwd=self.data(service), stdout=log, stderr=log
        )
        self._running.callback(end, process)

    def exec(self, service: str, *words: str) -> str:
        """The output of `docker compose exec`."""
        return self._finish(list(words), service)

    def health(self, service: str) -> int:
        """The exit code of the image's health check."""
        words = yaml.safe_load(self._image(service).words["HEALTHCHECK"])
        done = subprocess.run(words, env=self._variables(service), cwd=self.data(service), capture_output=True)
        return done.returncode

    def scraped(self) -> str:
        """The metrics that Prometheus would read with its configuration."""
        told = yaml.safe_load((ROOT / "docker" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
        (job,) = told["scrape_configs"]
        token, authority = (
            Path(self._here(file, "server"))
            for file in (job["authorization"]["credentials_file"], job["tls_config"]["ca_file"])
        )
        target = self._here(f"{job['scheme']}://{job['static_configs'][0]['targets'][0]}", "server")
        headers = {"Authorization": f"Bearer {token.read_text(encoding='ascii').strip()}"}
        return httpx.get(f"{target}/metrics", headers=headers, verify=tls_context(authority)).raise_for_status().text

    def log(self, service: str) -> str:
        """A service's output so far."""
        return (self._folder / f"{service}.log").read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """Stop all services."""
        self._running.close()

    def data(self, service: str) -> Path:
        """The folder that is mounted on /var/lib/aliquot."""
        mounts = (mount.split(":") for mount in self.services[service]["volumes"])
        (name,) = (mount[0] for mount in mounts if mount[1] == "/var/lib/aliquot")
        folder = self._folder / f"data-{name}"
        folder.mkdir(exist_ok=True)
        return folder

    def _finish(self, words: list[str], service: str) -> str:
        done = subprocess.run(
            words, env=self._variables(service), cwd=self.data(service), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _words(self, service: str) -> list[str]:
        told = self.services[service]
        entry = told.get("entrypoint") or yaml.safe_load(self._image(service).words["ENTRYPOINT"])
        words = [self._here(word, service) for word in [*entry, *told.get("command", [])]]
        if service == "server":
            return [*words, f"--port={self._port}"]
        # The images run as one account that is not root; if tests run as root, their folders are root's.
        as_root = ["--job-user=root", "--allow-root-jobs"]
        return [*words, *as_root] if service.startswith("node-") and os.geteuid() == 0 else words

    def _variables(self, service: str) -> dict[str, str]:
        image = {name: value for name, value in self._image(service).environment.items() if name != "PATH"}
        told = {**image, **self.services[service].get("environment", {})}
        moved = {name: self._here(value, service) for name, value in told.items()}
        path = f"{self._image(service).root}/opt/aliquot/bin:{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR")}
        return {**kept, **moved, "PATH": path, "CONFIGURATION_FOLDER": str(self.configuration)}

    def _image(self, service: str) -> Stage:
        return self._images[self.services[service]["image"].removeprefix("aliquot-")]

    def _here(self, text: str, service: str) -> str:
        if text.startswith("postgresql:"):
            return self._database
        text = text.replace("/prepare.sh", str(ROOT / "docker" / "prepare.sh"))
        text = text.replace("/etc/aliquot", str(self.configuration)).replace(
            "/var/lib/aliquot", str(self.data(service))
        )
        text = text.replace("0.0.0.0", "127.0.0.1")
        return re.sub(r"https://server:8090", f"https://localhost:{self._port}", text)
