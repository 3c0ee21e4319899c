"""What Signature Version 4 makes of a query, by hand: HMAC and SHA-256 alone, as AWS's guide describes the steps."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import parse_qsl, quote, urlsplit


def url_of(token: str) -> str:
    """The URL that a token of MSK is."""
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query, strict_parsing=True))


def signature_of(url: str, secret: str) -> str:
    """The one that the URL should have: of all its parameters but itself and what was put behind it."""
    parts, query = urlsplit(url), query_of(url)
    signed = sorted((name, text) for name, text in query.items() if name not in ("X-Amz-Signature", "User-Agent"))
    canonical = "&".join(f"{quote(name, safe='-_.~')}={quote(text, safe='-_.~')}" for name, text in signed)
    empty = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{canonical}\nhost:{parts.netloc}\n\nhost\n{empty}"
    _, *scope = query["X-Amz-Credential"].split("/")
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", query["X-Amz-Date"], "/".join(scope), hashed])
    key = f"AWS4{secret}".encode()
    for part in (*scope, text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()
