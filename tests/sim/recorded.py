"""Seeds that have broken something once, each with the features of its world then: README.md says what it was."""

from __future__ import annotations

from tests.sim.features import Features

RECORDED: list[tuple[int, Features]] = [
    (
        4,
        Features(
            wal="required", leases=True, sleeps=False, kill_every_secs=30.0, refused=0.05, lost_reply=0.01,
            records_per_sec=2.0, carried=False, through="strict", new_types=5, swept=True, change="type_gone",
            slow=0.03,
        ),
    ),
    (
        9,
        Features(
            tasks=2, partitions=6, coordinated=True, wal="required", leases=True, kill_every_secs=6.0, sleeps=False,
            sigterms=False, late=0.02, records_per_sec=0.5, roll_secs=15.0,
        ),
    ),
    (
        11,
        Features(
            wal="required", leases=True, kill_every_secs=6.0, sleeps=False, sigterms=False, refused=0.05,
            lost_reply=0.05, records_per_sec=6.0, roll_secs=15.0,
        ),
    ),
    (
        11,
        Features(
            tasks=4, partitions=1, wal="required", kill_every_secs=6.0, sigterms=False, refused=0.05, lost_reply=0.05,
            records_per_sec=6.0, roll_secs=15.0, grows=True, change="type_added",
        ),
    ),
    (
        23,
        Features(
            partitions=3, leases=False, wal="required", cuts=True, refused=0.2, lost_reply=0.2, records_per_sec=1.0,
            kill_every_secs=60.0,
        ),
    ),
    (33, Features(partitions=6, leases=False, cuts=True, refused=0.2, records_per_sec=0.5)),
    (
        8,
        Features(
            partitions=1, wal="required", kill_every_secs=30.0, sleeps=False, cuts=False, sigterms=False, late=0.02,
            records_per_sec=2.0, roll_secs=1.0, heartbeat_secs=3.0, through="strict", transactions=True, grows=True,
            change="type_added",
        ),
    ),
    (
        3109,
        Features(
            tasks=4, coordinated=True, cuts=False, refused=0.05, lost_reply=0.05, late=0.02, records_per_sec=6.0,
            roll_secs=15.0, heartbeat_secs=3.0, through="idle_aware", new_types=5, transactions=True, retention=True,
            compaction=True, second_topic=True,
        ),
    ),
    (
        5000,
        Features(
            partitions=1, kill_every_secs=12.0, sigterms=False, lost_reply=0.05, records_per_sec=6.0, roll_secs=15.0,
            heartbeat_secs=30.0, grows=True, poison="all",
        ),
    ),
    (
        5015,
        Features(
            partitions=6, wal="required", leases=True, sigterms=False, late=0.02, records_per_sec=2.0,
            heartbeat_secs=3.0, poison="all",
        ),
    ),
    (
        3,
        Features(
            partitions=1, coordinated=True, wal="required", sleeps=False, cuts=False, sigterms=False, refused=0.01,
            lost_reply=0.01, records_per_sec=6.0, roll_secs=15.0, new_types=1, transactions=True, evolves=True,
        ),
    ),
    (
        97,
        Features(
            partitions=1, wal="best_effort", kill_every_secs=15.0, cuts=False, sigterms=False, refused=0.05,
            lost_reply=0.01, records_per_sec=6.0, roll_secs=15.0, transactions=True, compaction=True,
            change="generation", reverted=True, secs=600.0, armed=8,
        ),
    ),
    (
        1796046728,
        Features(
            tasks=2, partitions=6, coordinated=True, wal="required", kill_every_secs=9.0, sleeps=False, cuts=False,
            sigterms=False, lost_reply=0.01, late=0.02, records_per_sec=2.0, heartbeat_secs=3.0, through="idle_aware",
            announced=True, restored=True, slow=0.03, secs=600.0, armed=8,
        ),
    ),
    (
        1796047241,
        Features(
            partitions=1, coordinated=True, wal="required", leases=True, kill_every_secs=15.0, cuts=False,
            sigterms=False, refused=0.05, records_per_sec=0.5, roll_secs=1.0, through="idle_aware", new_types=5,
            restored=True, slow=0.03, secs=600.0, armed=8,
        ),
    ),
    (
        1796047684,
        Features(
            partitions=1, coordinated=True, kill_every_secs=6.0, sleeps=False, sigterms=False, late=0.02,
            records_per_sec=2.0, heartbeat_secs=3.0, new_types=5, retention=True, swept=True, evolves=True, secs=600.0,
            armed=8,
        ),
    ),
    (
        1796047825,
        Features(
            tasks=2, partitions=1, kill_every_secs=9.0, sleeps=False, sigterms=False, refused=0.01,
            records_per_sec=0.5, roll_secs=15.0, heartbeat_secs=30.0, through="idle_aware", compaction=True,
            filtered=True, evolves=True, secs=600.0, armed=8,
        ),
    ),
    (
        1796066041,
        Features(
            partitions=6, coordinated=True, kill_every_secs=9.0, cuts=False, lost_reply=0.05, records_per_sec=0.5,
            carried=False, heartbeat_secs=3.0, transactions=True, poison="weak", filtered=True, secs=600.0, armed=8,
        ),
    ),
    (
        1796067708,
        Features(
            partitions=2, coordinated=True, wal="required", leases=True, kill_every_secs=6.0, cuts=False,
            sigterms=False, refused=0.01, late=0.02, records_per_sec=2.0, heartbeat_secs=30.0, new_types=1, grows=True,
            poison="weak", restored=True, fans_out=True, secs=600.0, armed=8,
        ),
    ),
    (
        1796073961,
        Features(
            tasks=1, partitions=1, wal="best_effort", kill_every_secs=3.0, sleeps=False, sigterms=False, refused=0.05,
            lost_reply=0.05, records_per_sec=6.0, roll_secs=1.0, heartbeat_secs=3.0, new_types=1, retention=True,
            swept=True, evolves=True, secs=600.0, armed=8,
        ),
    ),
    (
        1796074164,
        Features(
            tasks=2, partitions=1, kill_every_secs=3.0, cuts=False, sigterms=False, refused=0.01, lost_reply=0.05,
            late=0.02, records_per_sec=0.5, carried=False, roll_secs=1.0, new_types=1, retention=True, compaction=True,
            poison="weak", swept=True, evolves=True, secs=600.0, armed=8,
        ),
    ),
]  # fmt: skip
