"""Files for tests of devices."""

from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a file, and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
