"""A JVM that ran out of memory while it read: the process begins anew, and reads with care what was being read.

One record that unpacks to more than the heap would end every start otherwise, and nothing is kept on disk that could
say where it stands. So the process becomes a fresh one in its own place, told by its environment; what is in memory is
in the tables, or is read again. Only once for the same offsets: read with care, they are not the JVM's any more.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from exporter.ending import ending
from exporter.log import get_logger
from exporter.log_events import Event
from offsets.ranges import TopicPartition

log = get_logger(__name__)

VARIABLE = "EXPORTER_CAREFUL"
"""[[topic, partition, offset], ...]: what lies before these offsets is read with care."""


def careful_until() -> dict[TopicPartition, int]:
    """What the process was told when it began anew; empty for the first one."""
    told = json.loads(os.environ.get(VARIABLE, "[]"))
    return {TopicPartition(topic, partition): end for topic, partition, end in told}


def begin_anew(unread: Mapping[TopicPartition, int]) -> None:
    """Become a fresh process. unread: partition -> the offset before which the JVM was reading.

    Returns where there is nothing that could be read otherwise, and if the task was told to stop.
    """
    if not unread or ending.asked:
        return
    until = careful_until()
    until |= {tp: max(end, until.get(tp, 0)) for tp, end in unread.items()}
    log.warning(Event.JVM_OUT_OF_MEMORY, careful_until={str(tp): end for tp, end in sorted(unread.items())})
    os.environ[VARIABLE] = json.dumps([[*tp, end] for tp, end in sorted(until.items())])
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
