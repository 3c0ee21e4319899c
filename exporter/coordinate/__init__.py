"""One commit per table and interval, however many tasks: offers, rounds of a leader, outcomes."""
