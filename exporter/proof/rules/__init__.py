"""What a configuration's rules make of a record, a second time: by Python's `re`, and by a DuckDB of the audit's own.

routes.py       event type as sent -> the tables that take it
values.py       what a column that SQL sees holds of a value; sights.py: all of them, expressions.py: the SQL
filters.py      which records a table's filter takes out; functions.py: or a function of the settings
made.py         how a value and a row of its stand to each other; computing.py: what computed columns must hold

None of it is shared with executor/ and shape/, which have done it to the rows.
"""
