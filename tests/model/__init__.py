"""The protocol searched exhaustively: the project's own decision functions in a small world."""
