"""What a configuration's rules make of a record, a second time: by Python's `re`, and by a DuckDB of the audit's own.

routes.py       event type as sent -> the tables that take it
values.py       what a column that SQL sees holds of a value; sights.py: all of them, expressions.py: the SQL
sent.py         the records that it sees
filters.py      which records a table's filter takes out; functions.py: or a function of the settings
made.py         how a value and a row of its stand to each other; computing.py: what computed columns must hold
ruling.py       all of that, told in one pass over the records of the topics
slots.py        a record that several tables take: one verdict for each of them
rules.py        the rules of all configurations, as the comparison asks for them

None of it is shared with executor/ and shape/, which have done it to the rows.
"""
