"""Whole contents: a row's columns and `_rescued` put together again, against the value that the topic has.

scalars.py    what a scalar column makes of a value
shapes.py     the columns of a table, as a configuration declares them and as the table has them
compare.py    one value against one row: where they differ
changes.py    what was done to a row, where its value came in an envelope
"""
