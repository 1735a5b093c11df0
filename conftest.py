"""How tests behave: the same examples on every CI run, fresh ones on a developer's machine; kernels never stale."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A compiled kernel is kept beside its own file and does not notice a change in the files it takes pieces and constants
# from. Tests keep theirs under a name made of all those files, so that they never run an old one.
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

# A test of Spark is over before a compiler that optimises all the way pays: quick code, one thread that cleans up.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Classes that java_classes.py has kept; Java loads them by itself where there are none, or those of another version.
CLASSES = ROOT / ".java_cache" / "spark.jsa"
SILENT_JAVA = "-Xlog:disable"
os.environ.setdefault("JDK_JAVA_OPTIONS", f"{QUICK_JAVA} -XX:SharedArchiveFile={CLASSES} {SILENT_JAVA}")

# Helpers of other folders have the same name, and compiling is no test; none of them holds examples.
collect_ignore_glob = ["*conftest.py", "tests/java_classes.py", "tests/kernels.py"]

# Kernels compile on first use, so the first example of a test may take seconds: no deadline anywhere.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


# Tests with Spark share a process, so that one session serves them all, except those that start Spark by themselves.
APART = ("test_connect.py", "test_ingest_kills.py", "test_spark_bench.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests that share a session stay together and come first: they take longest."""
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
    """Slow tests come first, so that processes end together."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True, scope="session")
def _compiled_kernels():
    """Tests with deadlines, in this process and in those they start, find the kernels compiled."""
    from thinwire.codec.kernel_warmup import warm_up

    warm_up()
