"""Tables and topics that are made of the exported tables: mirrors, bundles, queries, records."""
