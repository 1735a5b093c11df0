"""Importing the package loads only the modules that are used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import thinwire
from thinwire.lazy import contents

SOURCE = str(Path(__file__).parents[2] / "src")
HEAVY = ("matplotlib", "numba", "pandas", "pyarrow", "pyspark")


def loaded(*statements: str) -> set[str]:
    """The modules of a fresh process after these statements."""
    code = "; ".join([*statements, "import sys; print(*sys.modules)"])
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return set(done.stdout.split())


def test_package_commands_and_tasks_import_no_heavy_modules() -> None:
    found = loaded("import thinwire", "import thinwire.spark", "import thinwire.cli.main")
    assert found.isdisjoint({*HEAVY, "numpy", "asyncio", "thinwire.client", "thinwire.codec"})


def test_a_client_loads_no_kernels_before_use() -> None:
    found = loaded("from thinwire import StreamEncoder, connect", "import thinwire.filters.where.where_grammar")
    assert {"thinwire.client", "thinwire.codec"} <= found
    assert found.isdisjoint(HEAVY)


def test_every_name_is_listed_and_found() -> None:
    assert set(thinwire.__all__) <= set(dir(thinwire))
    assert all(getattr(thinwire, name).__name__ == name for name in thinwire.__all__)
    assert thinwire.Schema is thinwire.schema.Schema


def test_an_unknown_name_raises_an_attribute_error() -> None:
    look_up, _ = contents("thinwire.wire", {"frame": "FrameKind"})
    with pytest.raises(AttributeError, match=r"'thinwire\.wire' has no attribute 'Schema'"):
        look_up("Schema")
    assert not hasattr(thinwire, "no_such_name")
