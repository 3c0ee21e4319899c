"""How an export fares, for people: a verdict and what helps, a status in plain words, pages of HTML."""
