"""Dead letters counted, shown, decoded again."""
