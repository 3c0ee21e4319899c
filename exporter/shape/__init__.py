"""What the settings make of decoded rows: names, SQL, Python, filters, constants."""
