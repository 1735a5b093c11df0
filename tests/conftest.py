"""How property tests behave: the same examples on every CI run, fresh ones on a developer's machine."""

import os

from hypothesis import HealthCheck, settings

# Kernels compile on first use, so the first example of a test may take seconds: no deadline anywhere.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
