#!/bin/sh
# A chromium for the tests of the web inbox: the one that is there, Debian's, or the one that Playwright fetches.
# `tools/browser.sh PLAYWRIGHT`, the path of its command.
set -eu

for name in "${HITL_CHROMIUM:-}" chromium chromium-browser; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
else
    "$1" install chromium
fi
