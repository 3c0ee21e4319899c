"""What obstore's errors say: in one line without a secret, and whether waiting may change it. Pure.

    403, 404 of a bucket, a wrong region, no credentials ── StoreRefused   a person has to change something
    503, 500, 429, no connection, no answer in time ─────── OSError        an outage, or it is throttled

A store quotes a request in its answer, and obstore the answer; of that only the code and its message are told.
"""

from __future__ import annotations

import errno
import re

from exporter.secrets import masked
from exporter.text import escaped, first_line

NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
REDIRECTED = "incorrectly configured region"
"""In obstore's words for an answer that another region should be asked, and not which."""
STANDING = (REDIRECTED, "BadScheme", "InvalidCertificate(")
"""So too, or in its debug output, what was wrong before anything was asked."""
NOT_STANDING = frozenset({408, 409, 412, 425, 429})
"""Client errors, by HTTP, that are none of whoever configured it."""
TOO_LATE = ("RequestTimeout", "OperationAborted")
"""Codes of S3 that come as client errors, and pass."""
EXPIRED = ("ExpiredToken", "TokenRefreshRequired")
"""Codes of S3 for keys that have ended."""
NO_CREDENTIALS = "no credentials: none in the environment, and no identity of this machine"
"""Where the last of a chain, the service that tells a machine who it is, is not there."""

_ANSWER = re.compile(r"<Code>([^<]+)</Code>\s*(?:<Message>([^<]*)</Message>)?", re.DOTALL)
_STATUS = re.compile(r"status code: (\d{3})([A-Za-z' -]*)")
_CAUSES = (
    ("169.254.169.254", NO_CREDENTIALS),
    ("metadata.google.internal", NO_CREDENTIALS),
    ("InvalidCertificate(", "its certificate is not trusted"),
    ("BadScheme", "http:// is not allowed"),
    ("kind: Timeout", "no answer in time"),
    ("kind: Connect", "no connection"),
)


class StoreRefused(PermissionError):
    """The store refuses what no waiting changes."""


def os_error(error: BaseException, uri: str) -> OSError:
    """The error as who works with files knows it. uri: what it is about."""
    text = said(error)
    if isinstance(error, FileNotFoundError) and not any(word in str(error) for word in NO_BUCKET):
        return FileNotFoundError(errno.ENOENT, "not there", uri)
    return StoreRefused(errno.EACCES, text, uri) if is_standing(error) else OSError(errno.EIO, text, uri)


def is_standing(error: BaseException) -> bool:
    """Whether no waiting changes it."""
    text = str(error)
    found = _STATUS.search(text)
    status = int(found[1]) if found else 0
    if any(f"<Code>{code}" in text for code in TOO_LATE):
        return False
    if isinstance(error, StoreRefused | ValueError) or any(mark in text for mark in STANDING):
        return True
    return (400 <= status < 500 and status not in NOT_STANDING) or status in (301, 307, 501)


def may_have_expired(error: BaseException) -> bool:
    """Whether keys may have ended between signing and answer. A HEAD is answered without a code."""
    answer, status = _ANSWER.search(str(error)), _STATUS.search(str(error))
    return answer[1] in EXPIRED if answer else status is not None and status[1] == "400"


def said(error: BaseException) -> str:
    """One line, without what was asked and without a secret."""
    text = str(error)
    if answer := _ANSWER.search(text):
        return escaped(masked(": ".join(part.strip().partition("\n")[0] for part in answer.groups() if part)))
    if status := _STATUS.search(text):
        return f"HTTP {status[1]}{status[2].rstrip()}"
    if REDIRECTED in text:
        return "the bucket is in another region"
    return next((words for mark, words in _CAUSES if mark in text), "") or escaped(first_line(error))
