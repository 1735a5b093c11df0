"""The zip file for executors: reproducible, complete, and importable without the source folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import thinwire
import thinwire_lab
from thinwire.spark.executor_package import package, shipped_packages
from thinwire.spark.session import is_local


def test_equal_packages_give_equal_files(tmp_path: Path) -> None:
    one, other = package(tmp_path / "one"), package(tmp_path / "other")
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()
    assert package(tmp_path / "one") == one


def test_the_zip_contains_every_file_of_thinwire_and_of_packages_that_extend_it(tmp_path: Path) -> None:
    assert shipped_packages() == ["thinwire", "thinwire_lab"]
    with ZipFile(package(tmp_path)) as found:
        names = set(found.namelist())
    assert names == _files(thinwire) | _files(thinwire_lab)
    assert "thinwire/spark/log4j2.properties" in names


def _files(module: ModuleType) -> set[str]:
    folder = Path(str(module.__file__)).parent
    found = {path.relative_to(folder.parent).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name}


def test_a_shipped_package_is_imported_and_caches_kernels_by_its_name(tmp_path: Path) -> None:
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


def test_only_a_local_master_needs_no_package() -> None:
    assert all(map(is_local, ["local", "local[*]", "local[2]", "local[2,3]"]))
    assert not any(map(is_local, ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "sc://host", "k8s://host"]))
