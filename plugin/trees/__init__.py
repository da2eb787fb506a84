"""Dependency trees from the scores of a parser."""
