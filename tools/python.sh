#!/bin/sh
# Print a Python new enough to run thinwire: $PYTHON if set, else the best one on the path.
set -eu

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
    if new_enough "$candidate"; then
        command -v "$candidate"
        exit 0
    fi
done

cat >&2 <<MESSAGE
thinwire needs Python 3.11 or newer; ${PYTHON:-no python on the path} is not.
  Debian, Ubuntu   sudo apt-get install python3 python3-venv
  Fedora           sudo dnf install python3
  macOS            brew install python@3.13
Or name one: make PYTHON=/path/to/python ...
MESSAGE
exit 1
