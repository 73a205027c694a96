"""A training in the manner of torchrun's elastic mode: workers meet at rank 0, share each step's work, and start anew
from the checkpoint in another number.

Runs as a job: `python3 elastic_training.py FOLDER STEPS`. Rank 0 listens at MASTER_ADDR:MASTER_PORT. In each step every
worker computes its part of a sum over `PARTS`, so that the result does not depend on the number of workers, and is
wrong if a worker is missing or a step is lost.
"""

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

PARTS = 12
MODULUS = 2**61 - 1


def part(step: int, state: int, number: int) -> int:
    return (state * (number + 3) + step * step) % MODULUS


def own_part(step: int, state: int, *, rank: int, size: int) -> int:
    return sum(part(step, state, number) for number in range(rank, PARTS, size))


def expected(steps: int) -> int:
    """The result of a training that is never interrupted."""
    state = 1
    for step in range(steps):
        state = own_part(step, state, rank=0, size=1) % MODULUS
    return state


def lead(folder: Path, steps: int, size: int, checkpoints: Path) -> None:
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: asked.append(number))
    made = checkpoints / "state"
    step, state = json.loads(made.read_text()) if (checkpoints / "DONE").exists() else (0, 1)
    with socket.create_server(("", int(os.environ["MASTER_PORT"]))) as server:
        workers = [server.accept()[0].makefile("rw") for _ in range(size - 1)]
    with (folder / "sizes").open("a") as sizes:
        sizes.write(f"{size} {step}\n")
    while step < steps:
        if asked:
            asked.clear()
            (checkpoints / "draft").write_text(json.dumps([step, state]))
            (checkpoints / "draft").rename(made)
            (checkpoints / "DONE").write_text(f"{step}\n")
        if step != steps // 2 or (folder / "go").exists():
            for worker in workers:
                worker.write(f"{step} {state}\n")
                worker.flush()
            sums = [own_part(step, state, rank=0, size=size), *(int(worker.readline()) for worker in workers)]
            state, step = sum(sums) % MODULUS, step + 1
        time.sleep(0.005)
    for worker in workers:
        worker.write("end\n")
        worker.flush()
    (folder / "result").write_text(str(state))


def follow(rank: int, size: int) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    while True:
        with suppress(ConnectionRefusedError):
            leader = socket.create_connection(address).makefile("rw")
            break
        time.sleep(0.05)
    for line in leader:
        if line == "end\n":
            return
        step, state = map(int, line.split())
        leader.write(f"{own_part(step, state, rank=rank, size=size)}\n")
        leader.flush()


if __name__ == "__main__":
    own_rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if own_rank:
        follow(own_rank, world)
    else:
        lead(Path(sys.argv[1]), int(sys.argv[2]), world, Path(os.environ["CHECKPOINT_DIR"]))
