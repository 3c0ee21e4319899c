"""Values that Spark SQL does not read, in plain Python: the audit's own second opinion, in Spark's workers.

reader.py     what each answers, and how
reading.py    frame, decision on the schema id, format, envelope: from bytes to a document, or why there is none
telling.py    the pass over a topic's records that gives the SQL side what it needs of each

One module per format, and none of them shares code with formats/: what they lean on is fastavro, google.protobuf and
the standard library.
"""
