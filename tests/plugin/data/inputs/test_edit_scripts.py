"""Edit scripts give back each lemma that they were made from."""

from __future__ import annotations

import random

import pytest

from msattn.data.inputs.edit_scripts import edit_script, edited

WORDS = {  # form and lemma by script
    "lower\t0\t\t0\t": [
        ("dog", "dog"),
        ("The", "the"),
        ("NOT", "not"),
        (".", "."),
        ("İyi", "iyi"),
        ("1,000", "1,000"),
        ("नमस्ते", "नमस्ते"),
    ],
    "lower\t0\t\t1\t": [("dogs", "dog"), ("Dogs", "dog"), ("DOGS", "dog")],
    "lower\t0\t\t3\ty": [("cities", "city"), ("Tries", "try")],
    "lower\t2\t\t0\t": [("gelacht", "lacht")],
    "lower\tbe": [("is", "be"), ("'m", "be"), ("IS", "be")],
    "title\t0\t\t0\t": [("Paris", "Paris"), ("PARIS", "Paris"), ("I", "I")],
    "title\ti": [("me", "I"), ("My", "I")],
    "title\t0\t\t2\t": [("Kim's", "Kim")],
    "upper\t0\t\t0\t": [("NASA", "NASA"), ("Nasa", "NASA")],
    "lower dotless\t0\t\t0\t": [("Işık", "ışık"), ("IRMAK", "ırmak")],
    "title dotless\t0\t\t0\t": [("İZMİR", "İzmir")],
    "lower dotless\t0\t\t3\t": [("ILIK", "ı")],
    "form\t0\t\t0\t": [("iPhone", "iPhone"), ("McDonald", "McDonald")],
    "form\t0\t\t1\t": [("iPhones", "iPhone")],
    "form\t1\tB\t0\t": [("aBc", "BBc")],
}


@pytest.mark.parametrize("script", WORDS)
def test_scripts(script):
    for form, lemma in WORDS[script]:
        assert edit_script(form, lemma) == script, (form, lemma)
        assert edited(script, form) == lemma


def test_all_lemmas_come_back():
    # Few letters, so that forms and lemmas share some; cases that change the length, marks, and what formats use.
    letters = "aabbAB ßİŉǅ|_\\=1\u0301\U0001f600σςΣ"
    draw = random.Random(0)
    for _ in range(20_000):
        form, lemma = ("".join(draw.choices(letters, k=draw.randint(1, 6))) for _ in range(2))
        assert edited(edit_script(form, lemma), form) == lemma


@pytest.mark.parametrize("form", ["s", "es", "ies", "S"])
def test_scripts_that_leave_nothing_keep_the_form(form):
    assert edited("lower\t0\t\t3\ty", form) == form
