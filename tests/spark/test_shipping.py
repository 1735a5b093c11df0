"""The package as a zip: the same for equal packages, whole, and of use without the folder it was made from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import thinwire
from thinwire.spark.executor_package import package
from thinwire.spark.session import is_local

HERE = Path(thinwire.__file__).parent


def test_equal_packages_make_equal_files(tmp_path: Path) -> None:
    one, other = package(tmp_path / "one"), package(tmp_path / "other")
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()
    assert package(tmp_path / "one") == one


def test_everything_but_what_python_made_is_in_it(tmp_path: Path) -> None:
    with ZipFile(package(tmp_path)) as found:
        names = set(found.namelist())
    there = {path.relative_to(HERE.parent).as_posix() for path in HERE.rglob("*") if path.is_file()}
    assert names == {name for name in there if "__pycache__" not in name}
    assert "thinwire/spark/log4j2.properties" in names


def test_a_shipped_package_is_used_and_keeps_its_kernels_by_its_name(tmp_path: Path) -> None:
    shipped = package(tmp_path)
    script = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        import thinwire.spark
        from thinwire.brokers.nats.blocking import delivery_scanner as kernel
        found = [thing for thing in vars(kernel).values() if getattr(thing, "_cache", None)]
        print(thinwire.__file__, *filter(None, (thing._cache.cache_path for thing in found)), sep="\\n")
    """
    done = subprocess.run(
        [sys.executable, "-c", script, str(shipped)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    package_file, *kernels = done.stdout.split()
    assert package_file == f"{shipped}/thinwire/__init__.py"
    assert kernels
    assert all(path.endswith(f"/{shipped.stem}/thinwire/brokers/nats/blocking") for path in kernels)
    assert not any(str(tmp_path) in path for path in kernels)


def test_only_a_local_master_needs_nothing_shipped() -> None:
    assert all(map(is_local, ["local", "local[*]", "local[2]", "local[2,3]"]))
    assert not any(map(is_local, ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "sc://host", "k8s://host"]))
