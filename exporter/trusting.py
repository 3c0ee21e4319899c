"""Whom a client trusts over TLS: the authority that a setting names, or those of the system."""

from __future__ import annotations

import ssl


def trusting(authority: str) -> ssl.SSLContext:
    """A context for who asks a server. authority: a PEM file; empty: the system's.

    Raises OSError, ssl.SSLError among it, for a file that cannot be used.
    """
    context = ssl.create_default_context(cafile=authority or None)
    if authority:  # from Python 3.13 on more is asked of a certificate than many a company's authority gives
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
