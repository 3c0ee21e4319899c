"""A stateless exporter: one Kafka topic of many event types becomes one Delta table per type.

Read the modules in the order a record travels: service, recover, group, plan, read,
route, decode, stage, writers, roll, commit, tables.
"""

__version__ = "0.1.0"
