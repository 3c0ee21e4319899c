"""What a configuration's rules make of a record, a second time: by Python's `re`, and by a DuckDB of the audit's own.

routes.py     event type as sent -> the tables that take it
slots.py      a record that several tables take: one verdict for each of them

None of it is shared with executor/ and shape/, which have done it to the rows.
"""
