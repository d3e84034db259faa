#!/bin/sh
# A PgBouncer for the tests of a pooler between servers and PostgreSQL: the one that is there, or Debian's.
set -eu

if command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ]; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends pgbouncer >/dev/null
    # The service that the package starts is not ours to use, and waits for a port that somebody may want.
    if command -v service >/dev/null; then service pgbouncer stop >/dev/null 2>&1 || true; fi
    exit 0
fi
echo "the tests need pgbouncer: install it as this system does (apt-get, dnf, brew)" >&2
exit 1
