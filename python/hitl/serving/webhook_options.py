"""What `--webhook` and `--webhook-secret` can be, as far as it can be told before the core looks at them."""

from __future__ import annotations

import re
from base64 import b64decode

_URL = re.compile(r"https?://[^/\s]", re.IGNORECASE)


def wrong_url(webhook: str) -> str | None:
    """What is wrong with the URL of `URL[,event...]`; None where nothing is seen of it here."""
    url = webhook.partition(",")[0].strip()
    if not url:
        return f"{webhook!r} has no URL"
    return None if _URL.match(url) else f"{url!r} is no URL, which begins with https:// or http://"


def signs_webhooks(secret: str) -> bool:
    """Whether it is a secret as Standard Webhooks has them."""
    kind, _, encoded = secret.partition("_")
    try:
        return kind == "whsec" and 24 <= len(b64decode(encoded, validate=True)) <= 64
    except ValueError:
        return False
