"""Hypothesis strategies that damage real files and values."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

# Bytes that are no text, words that are no numbers, signs of the formats, and too much of something.
PIECES = [
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\ud800", "e\u0301\u200d\u2028\u0085".encode()),
    *(b"NaN", b"nan", b"-Infinity", b"1e39", b"-1", b"0", b"null", b"true", b"{}", b"[]", b'"', b"\\", b",", b":"),
    *(b"(", b")", b"\t", b"\n", b"\r", b"\n\n", b" ", b"_", b"#", b"<e1>", b"</e2>", b"Comment:"),
    *(b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"word " * 300, b"x" * 140_000),
]


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[bytes]) -> bytes:
    """One of the files with up to four edits, rarely in another encoding."""
    data = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)))
        edits = [
            data[:start] + piece + data[start:],
            data[:start] + piece + data[end:],
            data[:start] + data[end:],
            data[:end] + data[start:end] * 2 + data[end:],
            data[:start],
            b"\n".join(reversed(data.split(b"\n"))),
        ]
        data = draw(st.sampled_from(edits))
    if draw(st.integers(0, 30)) == 30:
        encoding = draw(st.sampled_from(["utf-16", "utf-16-le", "latin-1"]))
        data = data.decode("utf-8", "replace").encode(encoding, "replace")
    return data


def packed(data: bytes) -> bytes:
    """The same, gzipped, as files whose names end in .gz are read."""
    return gzip.compress(data, mtime=0)


#: Text with what breaks tokenizers and files: combining marks, joiners, controls, lone surrogates.
ODD = ["dog", "The", " ", "\t", "\n", "\u0301", "\u200d", "\ud800", "\x00", "\u0939\u093f", "\u2028", ".", "[SEP]"]
TEXTS = st.one_of(st.text(max_size=30), st.lists(st.sampled_from(ODD), max_size=12).map("".join))
#: Whatever a JSON file or a Python program may put where another value is due.
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 40),
        st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**400]),
        st.floats(),
        TEXTS,
        st.sampled_from(["nan", "1_0", "1e39", "../x", "a\tb", "x" * 3000]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
