"""Decoding of parser scores into dependency trees."""
