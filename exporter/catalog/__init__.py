"""Catalogs, which know tables by a name: told beside the export, best effort, and never asked by it."""
