"""Who imports the package pays for what is used, not for all there is."""

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


def test_the_package_its_commands_and_its_tasks_start_light() -> None:
    found = loaded("import thinwire", "import thinwire.spark", "import thinwire.cli.main")
    assert found.isdisjoint({*HEAVY, "numpy", "asyncio", "thinwire.client", "thinwire.codec"})


def test_a_client_compiles_nothing_before_it_is_used() -> None:
    found = loaded("from thinwire import StreamEncoder, connect", "import thinwire.filters, thinwire.filters.where")
    assert {"thinwire.client", "thinwire.codec"} <= found
    assert found.isdisjoint(HEAVY)


def test_every_name_is_listed_and_found() -> None:
    assert set(thinwire.__all__) <= set(dir(thinwire))
    assert all(getattr(thinwire, name).__name__ == name for name in thinwire.__all__)
    assert thinwire.Schema is thinwire.schema.Schema


def test_a_name_that_is_not_there_is_an_attribute_that_is_missing() -> None:
    look_up, _ = contents("thinwire.wire", {"frame": "FrameKind"})
    with pytest.raises(AttributeError, match=r"'thinwire\.wire' has no attribute 'Schema'"):
        look_up("Schema")
    assert not hasattr(thinwire, "no_such_name")
