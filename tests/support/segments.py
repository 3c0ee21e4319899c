"""A partition's first segment on a broker's disk: damaged as a disk may do it, and shown by Kafka's own tool."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from exporter.spark.jars import find_java, jar_paths

BATCH = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) .* isvalid: (true|false)$", re.M)


def segment_of(folder: Path, topic: str) -> Path:
    """Of partition 0, in the folder of a broker."""
    return folder / "data" / f"{topic}-0" / "00000000000000000000.log"


def damage(segment: Path, batch: int) -> None:
    """Turn over one byte in the records of a producer's batch, counted from 0."""
    data, start = segment.read_bytes(), 0
    for _ in range(batch):
        start += 12 + int.from_bytes(data[start + 8 : start + 12], "big")
    with segment.open("r+b") as file:
        file.seek(start + 70)
        file.write(bytes([data[start + 70] ^ 0xFF]))


def damaged_batches(segment: Path) -> list[tuple[int, int]]:
    """First and last offset of each batch with a wrong checksum, by kafka-dump-log.sh as the handbook calls it."""
    tool = ["-cp", os.pathsep.join(map(str, jar_paths("broker"))), "kafka.tools.DumpLogSegments"]
    command = [str(find_java()), "-Xmx128m", *tool, "--files", str(segment)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    batches = BATCH.findall(told)
    assert batches, told
    return [(int(first), int(last)) for first, last, whole in batches if whole == "false"]
