"""Installs a wheel into an empty environment, and starts its server from an unrelated folder."""

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

WAIT_S: Final = 120.0


def main(wheel: Path) -> None:
    """Try it; an AssertionError gives the fault."""
    with tempfile.TemporaryDirectory(prefix="aliquot-release-") as name:
        folder = Path(name)
        environment = {"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8"}
        _uv("venv", "--quiet", "--python", sys.executable, folder / "venv")
        _uv("pip", "install", "--quiet", "--python", folder / "venv", wheel)
        command = folder / "venv" / "bin" / "aliquot"
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        shown = subprocess.run(
            [command, "--version"], cwd=elsewhere, env=environment, capture_output=True, text=True, check=True
        )
        assert shown.stdout.split()[1] in wheel.name, shown.stdout
        _serve(command, elsewhere, environment)
    print(f"{wheel.name} was installed into an empty environment, and its server and dashboard answered")


def _uv(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "uv", *words], env=os.environ | {"UV_SYSTEM_CERTS": "1"}, check=True)


def _serve(command: Path, folder: Path, environment: dict[str, str]) -> None:
    data = folder / "data"
    words = [command, "serve", "--port", "0", "--demo", "--data-folder", data]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        page = _page(server, folder / "log")
        assert b"<script" in page, "the page is not the dashboard"
    finally:
        server.terminate()
        assert server.wait(30) == 0, (folder / "log").read_text(encoding="utf-8")


def _page(server: "subprocess.Popen[bytes]", log: Path) -> bytes:
    """The page served to a browser once the server is up."""
    until = time.monotonic() + WAIT_S
    while True:
        told = log.read_text(encoding="utf-8", errors="replace")
        address = next((word for word in told.split() if word.startswith("http://")), None)
        if address is not None:
            with urllib.request.urlopen(address.split("/login")[0], timeout=10) as answer:
                found: bytes = answer.read()
                return found
        assert server.poll() is None, told
        assert time.monotonic() < until, told
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
