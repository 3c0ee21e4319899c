"""Values that say of what type they are: from rows as their writer had them to the columns of a table."""
