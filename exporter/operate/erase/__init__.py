"""A person is forgotten: what is found, and how it goes."""
