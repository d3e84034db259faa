#!/bin/sh
# A chromium for the tests of the web inbox: one that is there (the names of tests/python/ui/browser.py), Debian's, or the
# one that Playwright fetches. `tools/browser.sh PLAYWRIGHT`, the path of its command.
set -eu

for name in "${HITL_CHROMIUM:-}" chromium-headless-shell chromium chromium-browser; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    for name in chromium-headless-shell chromium; do
        if apt-cache show "$name" >/dev/null 2>&1; then
            DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "$name" fonts-dejavu-core >/dev/null
            exit 0
        fi
    done
fi
"$1" install --only-shell chromium
