"""Records the event log and the ledger of an earlier commit. It made tests/data/ledger_9f0fe7e.db.xz:

    git archive 9f0fe7e | tar x -C /tmp/old
    .venv/bin/python tests/support/old_ledger_recorder.py /tmp/old tests/data/ledger_9f0fe7e.db.xz

Run it as root, with an interpreter that has the packages of that commit. Three users submit sessions of all kinds to
the two mock nodes of `--demo` for a minute while an operator changes the policy, drains an agent and cancels. The file
is what `aliquot db backup` of that commit wrote. It holds no key that opens anything.
"""

import json
import lzma
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from old_folder_recorder import OldServer, end_jobs

USERS: Final = {"ann": "games", "ben": "news", "cat": "backup"}
"""Users and their Unix accounts, which Debian has."""
SUBMISSIONS: Final = 60
SLOTS: Final = ("cuda.device=1", "cuda.device=2", "cuda.device=8", "cuda.shares=0.5", "cuda.shares=1.2")
SETTLE_S: Final = 15.0


def use(server: OldServer, folder: Path) -> None:
    """Submit, cancel, drain, and change limits and policy."""
    draw = random.Random(1)
    keys = {}
    for user, account in USERS.items():
        server.run("user", "add", user, "--role", "user", "--project", "vision", "--unix", account)
        keys[user] = folder / f"{user}.key"
        keys[user].write_text(server.run("key", "new", user, "--scope", "submit").strip())
    server.run("quota", "set", "project:vision", "--max", "cuda.device=14", "--weight", "3")
    ids: list[str] = []
    for number in range(SUBMISSIONS):
        command = ("sleep", str(draw.choice((1, 2, 4, 8))))
        owner = keys[draw.choice(sorted(USERS))]
        created = server.run("session", "create", "--json", *_wishes(draw, ids), "--", *command, key=owner)
        ids.append(str(json.loads(created)["id"]))
        match number:
            case 10:
                server.run("policy", "set", "weights.age=2", "preemption.victims=willing")
            case 20:
                server.run("agents", "drain", "demo-2")
            case 30:
                server.run("agents", "resume", "demo-2")
            case 15 | 25 | 35:
                server.ask(f'mutation {{ cancel_session(input: {{ id: "{ids[-1]}" }}) {{ __typename }} }}')


def _wishes(draw: random.Random, ids: list[str]) -> list[str]:
    words = ["-r", draw.choice(SLOTS), "--priority", draw.choice(("low", "normal"))]
    for chance, more in ((0.2, ["--cluster-size", "2"]), (0.4, ["--preemptible"]), (0.4, ["--time-limit", "60"])):
        words += more if draw.random() < chance else []
    return words + (["--after", draw.choice(ids)] if ids and draw.random() < 0.2 else [])


def main(tree: Path, target: Path) -> None:
    """Record."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-old-"))
    folder.chmod(0o711)
    server = OldServer(tree, folder)
    try:
        server.until_ready()
        use(server, folder)
        time.sleep(SETTLE_S)
    finally:
        server.kill()
        end_jobs(folder / "data")
    copy = folder / "aliquot.db"
    server.run_offline("db", "backup", str(copy), "--data-folder", str(server.data))
    target.write_bytes(lzma.compress(copy.read_bytes(), preset=9))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
