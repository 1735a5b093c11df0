# Sourced by the other helpers: system packages, installed only where that is plainly allowed.

may_install() {
    [ "${THINWIRE_NO_INSTALL:-0}" != 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

install_packages() {
    echo "installing $* (THINWIRE_NO_INSTALL=1 forbids it)" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "$@" >&2 && return
    # A fresh image has no package lists yet.
    apt-get update --quiet >&2 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "$@" >&2
}
