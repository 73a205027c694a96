"""Entry point: `python -m aliquot_docs FOLDER` builds the documentation into a folder."""

import sys
from pathlib import Path

from aliquot_docs.building import build

if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]).resolve()))
