"""Configurations of the models: pure data, validated on construction."""
