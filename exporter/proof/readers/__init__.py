"""Values of all formats, in plain Python: the audit's own second opinion.

reader.py     what each answers, and how
reading.py    frame, decision on the schema id, format, envelope: from bytes to a document, or why there is none

One module per format, and none of them shares code with formats/: what they lean on is fastavro, google.protobuf and
the standard library.
"""
