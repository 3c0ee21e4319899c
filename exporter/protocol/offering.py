"""What an offer holds, where a message should not hold it: a file beside the table's data (protocol 4.11).

    <table>/_exporter/offers/<offer id>.json    {"adds": [...], "fits": [[fingerprint, columns], ...]}

Read by the leader, deleted by the sweep. Nothing rests on it: an offer whose file cannot be read is left out.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from exporter.core.coordination import Offer
from exporter.core.merging import OFFER_BYTES_MAX
from exporter.stores.store import Store
from offsets.names import offer_file


def lightened(store: Store, offer: Offer, bytes_max: int = OFFER_BYTES_MAX) -> Offer:
    """The offer, with its files in a manifest of their own if they take more bytes. store: of the table's folder.

    Raises OSError.
    """
    path = offer_file(offer.id)
    text = json.dumps({"adds": [*offer.adds], "fits": [*offer.fits]}, separators=(",", ":"))
    if len(text) <= bytes_max:
        return offer
    with suppress(FileExistsError):  # it was told before
        store.create(path, text.encode(), sync=False)
    return replace(offer, adds=(), fits=(), manifest=path)


def whole(store: Store, offer: Offer) -> Offer:
    """The offer with what its manifest says. Raises OSError, and ValueError for what is none of ours."""
    if not offer.manifest:
        return offer
    if offer.manifest != offer_file(offer.id) or offer.adds or offer.fits:
        raise ValueError(f"offer {offer.id[:64]!r} has a manifest that is not its own")
    said = _read(store, offer.manifest)
    fits = tuple((str(fingerprint), str(columns)) for fingerprint, columns in said["fits"])
    return replace(offer, adds=tuple(said["adds"]), fits=fits, manifest="")


def offered_paths(store: Store, manifest: str) -> list[str] | None:
    """The files that a manifest names, none of them if it is no manifest; None: it cannot be read now."""
    try:
        return [unquote(add["path"]) for add in _read(store, manifest)["adds"]]
    except OSError:
        return None
    except (ValueError, TypeError, KeyError):
        return []


def _read(store: Store, manifest: str) -> dict[str, Any]:
    said = json.loads(store.read(manifest))
    if not isinstance(said, dict) or not all(isinstance(said.get(key), list) for key in ("adds", "fits")):
        raise ValueError(f"{manifest} is no manifest of an offer")
    return said
