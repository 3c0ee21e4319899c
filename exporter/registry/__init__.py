"""Schema registries: asked by the driver alone, their answers recorded beside the tables for ever."""
