"""From staged files to files that a commit may name: small ones merged, each there with its size (TEMP).

Nothing here deletes a file. What is the matter with a claim's files decides whether they are staged anew or tried
later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from exporter.core.merge import merge_batches
from exporter.core.order import StagingBudget
from exporter.core.outcome import Settled, Stale, Unwritten
from exporter.core.writers import Claim, StagedFile, staged_range_error
from exporter.errors import InvariantBroken
from exporter.lake.change import add_action
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from exporter.protocol.origin import origin
from exporter.stores.many import each
from exporter.stores.parquet import FileOrigin, NotWritten, merge
from exporter.stores.store import Store
from offsets import Invariant
from offsets.names import DataFile


@dataclass(frozen=True)
class FileWriter:
    """Writes and looks at the files of claims. room: of each merging."""

    lake: Lake
    room: StagingBudget

    def ready(
        self, table: DeltaTable, claims: Sequence[tuple[Claim, Mapping[str, str]]]
    ) -> tuple[list[Claim], list[Settled]]:
        """Merge what is small, write what is not yet, and set claims aside whose files are gone.

        claims: each with the footer of its files. VACUUM deletes staged files. Raises InvariantBroken.
        """
        ready: list[Claim] = []
        aside: list[Settled] = []
        for claim, footer in claims:
            if wrong := staged_range_error(claim):
                raise InvariantBroken(Invariant.COVER, f"{claim.key}: {wrong}", "start again; please report this")
            try:
                # Once offered it keeps its files: an earlier commit that names them may still land (4.1).
                ready.append(claim if claim.offers else replace(claim, files=self._merged(table, claim, footer)))
            except Exception as error:  # noqa: BLE001 - whatever it was, the claim is not offered
                aside.append(Settled(claim, _unready(error, self.lake.store)))
        ready, gone = self.there(table, ready)
        return ready, [*aside, *gone]

    def there(self, table: DeltaTable, claims: Sequence[Claim]) -> tuple[list[Claim], list[Settled]]:
        """The claims all of whose files are there as they were staged, and the others."""
        found = each(lambda claim: _missing(table, claim, self.lake.store), claims)
        aside = [Settled(claim, outcome) for claim, outcome in zip(claims, found, strict=True) if outcome]
        return [claim for claim, outcome in zip(claims, found, strict=True) if not outcome], aside

    def synced(self, table: DeltaTable, claims: Sequence[Claim]) -> tuple[list[Claim], list[Settled]]:
        """Bring the files of claims to disk, where that has to be asked for; set aside those that cannot be.

        Else the one whose commit does it would be the only one who is told that bytes are lost: the system says so
        once, and whoever commits them next would be told that all is well.
        """
        if not self.lake.sync:
            return [*claims], []
        found = each(lambda claim: _unsynced(table, claim), claims)
        aside = [Settled(claim, outcome) for claim, outcome in zip(claims, found, strict=True) if outcome]
        return [claim for claim, outcome in zip(claims, found, strict=True) if not outcome], aside

    def _merged(self, table: DeltaTable, claim: Claim, footer: Mapping[str, str]) -> tuple[StagedFile, ...]:
        by_folder: dict[str, list[StagedFile]] = defaultdict(list)
        for file in claim.files:
            by_folder[file.folder].append(file)
        merged: list[StagedFile] = []
        for files in by_folder.values():
            for batch in merge_batches(files, self.room):
                whose = origin(self.lake, table.event_type, batch[0].fingerprint, claim.key.tp, claim.epoch, footer)
                written = len(batch) == 1 and not batch[0].body
                one = batch[0] if written else merge(whose, batch, self.room)
                merged.append(replace(one, columns=batch[0].columns))
        return tuple(merged)

    def add(self, claim: Claim, file: StagedFile, commit_id: str, footer: Mapping[str, str]) -> dict[str, Any]:
        """Delta's `add` action of one file of a claim. commit_id: under which it is offered."""
        name = DataFile.parse(file.path)
        whose = FileOrigin(self.lake.store, name.app, name.tp, name.epoch, claim.key.event_type, "", footer)
        return add_action(
            file, {**whose.tags(file.offsets), "covered_offset": str(claim.new), "commit_id": commit_id}
        )


def _unready(error: Exception, store: Store) -> Stale | Unwritten:
    """What is the matter with a claim's files. The storage is asked right then: later it may be well again."""
    if isinstance(error, NotWritten):
        return Unwritten(f"a file cannot be written: {error}", store.trouble())
    if not isinstance(error, OSError | ValueError):  # it would be no better for another reading
        return Unwritten(f"its files cannot be merged: {type(error).__name__}: {error}")
    why = f"a staged file cannot be read: {error}"
    storage = "" if isinstance(error, FileNotFoundError) else store.trouble()
    return Unwritten(why, storage) if storage else Stale(why)


def _unsynced(table: DeltaTable, claim: Claim) -> Stale | None:
    try:
        for file in claim.files:
            table.store.sync(file.path)
    except OSError as error:
        return Stale(f"a staged file cannot be brought to disk: {error}")
    return None


def _missing(table: DeltaTable, claim: Claim, store: Store) -> Stale | Unwritten | None:
    """What is the matter with a claim one of whose files is not there as it was staged; None if all are."""
    try:
        for file in claim.files:
            table.require(file.path, file.size_bytes)
    except Exception as error:  # noqa: BLE001 - whatever it was, the claim is not offered
        return _unready(error, store)
    return None
