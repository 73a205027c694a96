"""A training that saves its work when it is asked, acknowledges it, and goes on from its last checkpoint.

Runs as a job: `python3 checkpointing_training.py FOLDER STEPS [torch]`. Each step changes the whole state, so that the
result tells whether a step was lost, repeated or made on another state. Half way it waits for FOLDER/go.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

SLEEP_S = 0.005
MODULUS = 2**61 - 1


class Plain:
    """A state of one number."""

    def __init__(self) -> None:
        self.number = 1

    def step(self, index: int) -> None:
        self.number = (self.number * 6364136223846793005 + index) % MODULUS

    def save(self, path: Path, *, step: int) -> None:
        path.write_text(json.dumps({"step": step, "state": self.number}))

    def restore(self, path: Path) -> int:
        found = json.loads(path.read_text())
        self.number = found["state"]
        return int(found["step"])

    def result(self) -> str:
        return str(self.number)


class Torch:
    """A small network with momentum, and random batches."""

    def __init__(self) -> None:
        import torch

        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.torch = torch
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self, index: int) -> None:
        batch = self.torch.randn(32, 8)
        loss = (self.model(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def save(self, path: Path, *, step: int) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.torch.save({**state, "random": self.torch.get_rng_state(), "step": step}, path)

    def restore(self, path: Path) -> int:
        found = self.torch.load(path)
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])
        self.torch.set_rng_state(found["random"])
        return int(found["step"])

    def result(self) -> str:
        return " ".join(f"{weight:.9g}" for part in self.model.parameters() for weight in part.flatten().tolist())


def train(folder: Path, steps: int, model: Any, *, checkpoints: Path) -> None:
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: asked.append(number))
    made = checkpoints / "state"
    step = model.restore(made) if (checkpoints / "DONE").exists() else 0
    note(folder / "began", step)
    while step < steps:
        if asked:
            asked.clear()
            model.save(checkpoints / "draft", step=step)
            (checkpoints / "draft").rename(made)
            (checkpoints / "done").write_text(f"{step}\n")
            (checkpoints / "done").rename(checkpoints / "DONE")
            note(folder / "saved", step)
        if step != steps // 2 or (folder / "go").exists():
            model.step(step)
            step += 1
        time.sleep(SLEEP_S)
    note(folder / "result", model.result())


def note(path: Path, value: object) -> None:
    with path.open("a") as file:
        file.write(f"{value}\n")


def expected(steps: int, model: Any) -> str:
    """The result of a training that is never interrupted."""
    for step in range(steps):
        model.step(step)
    return str(model.result())


if __name__ == "__main__":
    kind = Torch if sys.argv[3:] == ["torch"] else Plain
    train(Path(sys.argv[1]), int(sys.argv[2]), kind(), checkpoints=Path(os.environ["CHECKPOINT_DIR"]))
