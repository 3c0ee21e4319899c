"""Which small files of one writer and folder become one file. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.core.order import StagingBudget
from exporter.core.writers import StagedFile

SMALL_FILE_BYTES = 256 << 10
"""Files below this are merged, per folder, before they are committed."""
MERGED_FILE_BYTES = 64 << 20
"""A merged file takes inputs up to about this many bytes."""


def merge_batches(files: Sequence[StagedFile], room: StagingBudget) -> list[list[StagedFile]]:
    """Which files of one writer and partition become one file: runs of small neighbours, up to a size. Pure.

    Files of other columns stay apart. One that is small on disk only, for its rows are much alike, has a row group's
    worth of them by itself.
    """
    batches: list[list[StagedFile]] = []
    size, size_max = 0, min(MERGED_FILE_BYTES, room.encoded_bytes)

    def is_small(file: StagedFile) -> bool:
        return file.size_bytes < SMALL_FILE_BYTES and file.arrow_bytes < room.unsplit_bytes

    for file in sorted(files, key=lambda file: file.offsets):
        alike = batches and batches[-1][-1].fingerprint == file.fingerprint
        joins = alike and is_small(file) and is_small(batches[-1][-1])
        if joins and size + file.size_bytes <= size_max:
            batches[-1].append(file)
            size += file.size_bytes
        else:
            batches.append([file])
            size = file.size_bytes
    return batches
