"""No secret in anything that is shown: what a client or Spark quotes in a message is masked on its way out.

Spark's Kafka source, for one, prints all options of its consumers in an exception. Whoever hands a secret to a client
registers it here; logs, errors and what is kept of exceptions go through masked(). Never stores one elsewhere.
"""

from __future__ import annotations

import json
import re

MASK = "********"
LENGTH_MIN = 4
"""A shorter secret would blot out half of every line; where it stands in an option it is masked all the same."""

_OPTION = re.compile(
    r'(\bpassword\s*=\s*(\\*)")(.*?)((?<!\\)\2"|$)|(\.password\s*=\s*)[^,;}\s"]+', re.IGNORECASE | re.DOTALL
)
"""A password in a line of JAAS, however often its quotes were escaped, or as a client's option."""
_KEY = re.compile("(BEGIN [A-Z ]*PRIVATE KEY-----)[^-]+")
"""One of PEM, however its lines end."""
_known: tuple[str, ...] = ()


def keep_secret(*secrets: str | None) -> None:
    """Register secrets: from now on they are masked in all output, also as JAAS, JSON and Python spell them."""
    global _known
    found = set(_known)
    for secret in secrets:
        if secret and len(secret) >= LENGTH_MIN:
            found |= _spellings(secret)
    _known = tuple(sorted(found, key=len, reverse=True))


def forget_secret(secret: str) -> None:
    """Of one that is none any more, so that a process which gets new ones for years does not look for all of them."""
    global _known
    gone = _spellings(secret)
    _known = tuple(known for known in _known if known not in gone)


def _spellings(secret: str) -> set[str]:
    """A log line quotes a message that quotes an option: twice is usual."""
    found = {secret, jaas_text(secret)}
    for _ in range(2):
        for text in tuple(found):
            found |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
    return found


def jaas_text(text: str) -> str:
    """Within the quotes of a JAAS entry, as Java's StreamTokenizer reads it."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def masked(text: str) -> str:
    """The text with every registered secret, and every password in a JAAS entry or an option, replaced."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, MASK)
    text = _KEY.sub(rf"\1{MASK}", text) if "PRIVATE KEY" in text else text
    return _OPTION.sub(lambda m: f"{m[1] or m[5]}{MASK}{m[4] or ''}", text) if "assword" in text else text
