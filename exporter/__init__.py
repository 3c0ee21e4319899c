"""A stateless exporter: Kafka topics of many event types become one Delta table per type.

Read the modules in the order a record travels: service, recover, group, plan, read,
route, decode, stage, writers, roll, commit, tables.
"""

__version__ = "0.1.0"
