#!/bin/sh
# Run uv; when the machine has none, bring it into .tools first.
set -eu
cd "$(dirname "$0")/.."
. tools/packages.sh

# Certificates of the machine, so that it also works behind a proxy that signs with its own.
export UV_NATIVE_TLS="${UV_NATIVE_TLS:-1}"

make_tools() {
    rm -rf .tools
    "$1" -m venv .tools >&2
}

if command -v uv >/dev/null 2>&1; then
    exec uv "$@"
fi
if ! .tools/bin/uv --version >/dev/null 2>&1; then
    python=$(tools/python.sh)
    make_tools "$python" || { may_install && install_packages python3-venv && make_tools "$python"; } || {
        echo "$python cannot make virtual environments; on Debian and Ubuntu: sudo apt-get install python3-venv" >&2
        exit 1
    }
    .tools/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.5' >&2
fi
exec .tools/bin/uv "$@"
