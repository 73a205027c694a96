"""Entry point: `python -m aliquot_docs FOLDER [--serve]` builds the documentation into a folder.

With `--serve` a running server serves it at `/docs`, and the next wheel contains it.
"""

import sys
from pathlib import Path

from aliquot_docs.building import build, publish

if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    code = build(target)
    if code == 0 and "--serve" in sys.argv[2:]:
        publish(target)
    sys.exit(code)
