from __future__ import annotations

import sys
from types import ModuleType

import pytest


class Synset:
    """As nltk's: the chain of its hypernyms, and its own depth."""

    def __init__(self, *names: str):
        self.names = names

    def name(self) -> str:
        return self.names[0]

    def max_depth(self) -> int:
        return len(self.names) - 1

    def hypernym_distances(self) -> set[tuple[Synset, int]]:
        return {(Synset(*self.names[distance:]), distance) for distance in range(len(self.names))}


@pytest.fixture
def wordnet(monkeypatch):
    """A WordNet of four words in the place of nltk's."""
    synsets = {
        "dog": [Synset("dog", "canine", "animal", "entity"), Synset("frank", "food", "entity")],
        "cat": [Synset("cat", "feline", "animal", "entity")],
        "house": [Synset("house", "entity")],
        "run": [Synset("run")],
    }
    module, package = ModuleType("nltk.corpus"), ModuleType("nltk")
    module.wordnet = ModuleType("wordnet")
    module.wordnet.ensure_loaded = lambda: None
    module.wordnet.synsets = lambda word: synsets.get(word, [])
    monkeypatch.setitem(sys.modules, "nltk", package)
    monkeypatch.setitem(sys.modules, "nltk.corpus", module)
