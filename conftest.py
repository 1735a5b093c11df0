"""Settings of all tests: fixed hypothesis examples in CI, new ones on a developer's machine, current kernels."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Numba caches a compiled kernel per source file and does not detect changes in files from which it takes functions and
# constants. Tests use a cache folder named by a hash of all these files, so that they never run an outdated kernel.
ROOT = Path(__file__).parent
PIECES = (
    "thinwire/brokers/nats/blocking/*.py",
    "thinwire/codec/**/*.py",
    "thinwire/filters/**/*.py",
    "thinwire/placement/*.py",
    "thinwire/wire/*.py",
    "thinwire_lab/**/*.py",
)
_sources = sorted(path for piece in PIECES for root in ("src", "lab/src") for path in (ROOT / root).glob(piece))
_digest = sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / _digest))

# Tests of Spark are too short for an optimising compiler to pay: C1 only, and the serial garbage collector.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Class archive written by java_classes.py. Without it, or with one of another version, Java loads the classes itself.
CLASSES = ROOT / ".java_cache" / "spark.jsa"
SILENT_JAVA = "-Xlog:disable"
os.environ.setdefault("JDK_JAVA_OPTIONS", f"{QUICK_JAVA} -XX:SharedArchiveFile={CLASSES} {SILENT_JAVA}")

# These modules contain no tests or examples, and some have the same name in several folders.
collect_ignore_glob = ["*conftest.py", "tests/java_classes.py", "tests/kernels.py"]

# Kernels compile on first use, so the first example of a test may take seconds: no deadline anywhere.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


# Tests with Spark share a process and its session, except those that start Spark themselves.
APART = ("test_connect.py", "test_ingest_kills.py", "test_spark_bench.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run tests that share a session in one process, and first, because they take longest."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return (
                "spark"
                if file.startswith(("tests/spark/", "lab/tests/spark/")) and not file.endswith(APART)
                else nodeid
            )

    return Scheduler(config, log)


def pytest_collection_modifyitems(items):
    """Run slow tests first, so that all processes end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True, scope="session")
def _compiled_kernels():
    """Compile the kernels before tests with deadlines run, here or in child processes."""
    from thinwire.codec.kernel_warmup import warm_up

    warm_up()
