"""Makes the wire examples in `v1/` from the library, the same bytes every time.

    python tests/vectors/make.py            writes the files; a test compares them with what is there

An example is one JSON file: the schema, the configuration its publisher had, and the steps, each a message (hex) and
what a subscriber delivers on it. `needs` lists what a reader must know beyond the independent decoder's share.

A change in these files is a change of the wire: either a mistake, or a new version with a folder of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import vector_dictionaries
import vector_lanes
import vector_links
import vector_predictors
from vector_recording import EXAMPLES

FOLDER = Path(__file__).parent / "v1"
THEMES = (vector_lanes, vector_predictors, vector_links, vector_dictionaries)


def files() -> dict[str, str]:
    """Name and text of every example."""
    made = [make() for make in EXAMPLES]
    return {f"{e.name}.json": e.text() for e in made}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name} {len(text)}\n")
