"""kind = "bundles": transactions that are put together from the rows of several tables (protocol 9.6).

    rules ── members ── judged ── outputs ── job: one commit
                └──────── ledger ──┘   └──────── audit: the same by another way
"""
