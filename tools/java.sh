#!/bin/sh
# Spark needs Java 17 or newer. `hint` says how to get it and never fails; `install` gets it where that is allowed.
set -eu
cd "$(dirname "$0")/.."
. tools/packages.sh
needed=17

java_version() {
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9][0-9]*\).*/\1/p' | head -n 1
}

have_java() {
    found=$(java_version)
    [ "${found:-0}" -ge "$needed" ]
}

how() {
    if command -v apt-get >/dev/null 2>&1; then
        echo "sudo apt-get install default-jre-headless"
    elif command -v dnf >/dev/null 2>&1; then
        echo "sudo dnf install java-latest-openjdk-headless"
    elif command -v brew >/dev/null 2>&1; then
        echo "brew install openjdk@17"
    else
        echo "install a JRE of your choice and set JAVA_HOME"
    fi
}

have_java && exit 0
if [ "${1:-hint}" = install ] && may_install; then
    install_packages default-jre-headless && have_java && exit 0
fi
echo "note: no Java $needed or newer found (${found:-none}); Spark needs it: $(how)" >&2
[ "${1:-hint}" = hint ]
