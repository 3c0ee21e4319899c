"""A schema registry: asked by the driver alone, its answers recorded beside the tables for ever."""
