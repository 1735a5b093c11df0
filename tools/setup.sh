#!/bin/sh
# Make .venv hold exactly what requirements.lock names, and the project itself as editable source.
set -eu
cd "$(dirname "$0")/.."

if ! PYTHON=.venv/bin/python tools/python.sh >/dev/null 2>&1; then
    python=$(tools/python.sh)
    rm -rf .venv
    tools/uv.sh venv --quiet --python "$python" .venv
fi
# Linking fails across file systems and then warns; a copy always works.
export UV_LINK_MODE="${UV_LINK_MODE:-copy}"
tools/uv.sh pip sync --quiet --python .venv/bin/python requirements.lock
# The build backend is locked too, hence no isolation: nothing unpinned is fetched.
tools/uv.sh pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable . --editable ./lab
