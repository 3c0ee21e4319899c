"""Delta tables: one snapshot in, one commit out, and what happened to them."""
