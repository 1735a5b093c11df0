"""Generate the wire examples in `v1/`; the bytes are the same every time.

    python tests/vectors/make.py            writes the files; a test compares them with the stored ones

An example is one JSON file: the schema, the configuration of the publisher, and the steps, each with a message (hex)
    and its deliveries. `needs` lists features that the independent decoder does not implement.

A change in these files is a change of the wire format: either a mistake, or a new version with its own folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import vector_dictionaries
import vector_encodings
import vector_predictors
import vector_streams
from vector_recording import EXAMPLES

FOLDER = Path(__file__).parent / "v1"
THEMES = (vector_encodings, vector_predictors, vector_streams, vector_dictionaries)


def files() -> dict[str, str]:
    """Return name and text of every example."""
    made = [make() for make in EXAMPLES]
    return {f"{e.name}.json": e.text() for e in made}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name} {len(text)}\n")
