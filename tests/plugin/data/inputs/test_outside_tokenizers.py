from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest

from msattn import UserError
from msattn.data.inputs.outside_tokenizers import named_tokenizer, outside_words
from msattn.data.inputs.raw_text import Word, split_text

TEXT = "Du chien dort.  Oui !"
UDPIPE = """# newdoc
# sent_id = 1
# text = Du chien dort.
1-2\tDu\t_\t_\t_\t_\t_\t_\t_\t_
1\tDe\t_\t_\t_\t_\t_\t_\t_\t_
2\tle\t_\t_\t_\t_\t_\t_\t_\t_
3\tchien\t_\t_\t_\t_\t_\t_\t_\t_
3.1\tqui\t_\t_\t_\t_\t_\t_\t_\t_
4\tdort\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
5\t.\t_\t_\t_\t_\t_\t_\t_\tSpacesAfter=\\s\\s

# sent_id = 2
1\tOui\t_\t_\t_\t_\t_\t_\t_\t_
2\t!\t_\t_\t_\t_\t_\t_\t_\t_

"""
PLACED = [
    [("Du", 0, 2), ("chien", 3, 8), ("dort", 9, 13), (".", 13, 14)],
    [("Oui", 16, 19), ("!", 20, 21)],
]
SPLIT = [[("De", 0, 2), ("le", 0, 2), *PLACED[0][1:]], PLACED[1]]


def stanza(text):
    def token(start, end, *words):
        return SimpleNamespace(start_char=start, end_char=end, words=[SimpleNamespace(text=word) for word in words])

    first = [token(0, 2, "De", "le"), token(3, 8, "chien"), token(9, 13, "dort"), token(13, 14, ".")]
    return SimpleNamespace(
        sentences=[SimpleNamespace(tokens=first), SimpleNamespace(tokens=[token(16, 19, "Oui"), token(20, 21, "!")])]
    )


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [
        (lambda text: re.findall(r"\w+|[^\w\s]", text), PLACED),
        (lambda text: iter([["Du", "chien", "dort", "."], (), ("Oui", "!")]), PLACED),
        (lambda text: UDPIPE, SPLIT),
        (lambda text: UDPIPE.replace("\n", "\r\n"), SPLIT),
        (stanza, SPLIT),
    ],
)
def test_any_callable(tokenizer, expected):
    assert outside_words(tokenizer, TEXT) == expected


def test_a_range_of_one_word_keeps_its_form():
    found = "1-1\tdu" + "\t_" * 8 + "\n1\tde" + "\t_" * 8 + "\n\n"
    assert split_text("du", lambda text: found) == [[Word("de", 0, 2, "", "du")]]
    with pytest.raises(UserError, match="^line 1 of the word_tokenizer: .* 1-0 ends before it starts"):
        outside_words(lambda text: found.replace("1-1", "1-0"), "du")


def test_a_tokenizer_of_stanza(monkeypatch):
    package = SimpleNamespace(Pipeline=lambda lang, **options: (lang, options["download_method"]))
    monkeypatch.setitem(sys.modules, "stanza", package)
    assert named_tokenizer("stanza:fr") == ("fr", "reuse_resources")  # without the network


def test_a_model_of_udpipe(tmp_path):
    """A real one, trained here; it has to outlive what loads it."""
    udpipe = pytest.importorskip("ufal.udpipe")
    reader, sentence = udpipe.InputFormat.newConlluInputFormat(), udpipe.Sentence()
    sentences, error = udpipe.Sentences(), udpipe.ProcessingError()
    reader.setText(UDPIPE * 4)
    while reader.nextSentence(sentence, error):
        sentences.append(sentence)
        sentence = udpipe.Sentence()
    options = "epochs=1;dimension=16", udpipe.Trainer.NONE, udpipe.Trainer.NONE
    model = udpipe.Trainer.train("morphodita_parsito", sentences, udpipe.Sentences(), *options, error)
    assert not error.occurred(), error.message
    (tmp_path / "fr.udpipe").write_bytes(model)
    sentences = split_text(TEXT, f"udpipe:{tmp_path / 'fr.udpipe'}")
    spans = sorted({(word.start, word.end) for sentence in sentences for word in sentence})
    assert "".join(TEXT[start:end] for start, end in spans) == TEXT.replace(" ", "")
    with pytest.raises(UserError, match="none.udpipe: the file is no model"):
        named_tokenizer(f"udpipe:{tmp_path / 'none.udpipe'}")


def test_tokenizers_that_are_not_there(monkeypatch):
    for name in ("fr", "nltk:fr", "spacy:"):
        with pytest.raises(UserError, match=f"{name!r}: give spacy:fr, spacy:fr_core_news_sm, stanza:fr or udpipe"):
            split_text("du", name)
    monkeypatch.setitem(sys.modules, "stanza", None)
    with pytest.raises(ImportError, match="stanza:xx: the package is not installed: pip install stanza"):
        split_text("du", "stanza:xx")


def test_words_of_spacy():
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("fr")
    assert outside_words(nlp, TEXT) == PLACED
    nlp.add_pipe("sentencizer", config={"punct_chars": ["nothing"]})
    assert outside_words(nlp, TEXT) == [PLACED[0] + PLACED[1]]

    def words(**starts):
        doc = spacy.blank("en")("Dogs sleep. Cats eat ...  birds sing.")
        for token in doc:
            token.is_sent_start = starts.get(token.text.strip() or "space")
        return [[word for word, _, _ in sentence] for sentence in outside_words(lambda _: doc, doc.text)]

    first, second, third = ["Dogs", "sleep", "."], ["Cats", "eat", "..."], ["birds", "sing", "."]
    assert words(eat=False) == [first, second + third]
    assert words(birds=True) == words(space=True) == [first, second, third]
    assert words(birds=True, Cats=False) == [first + second, third]


@pytest.mark.parametrize("text", ["10 000 euros", "10\n000 euros", "10 \t 000 euros"])
def test_white_space_in_a_word(text):
    """Tokenizers make one space of it, and a cell of CoNLL-U holds no line end."""
    for tokenizer in (lambda text: ["10 000", "euros"], lambda text: [text[: -len(" euros")], "euros"]):
        ((number, _),) = split_text(text, tokenizer)
        assert number == Word("10 000", 0, text.index(" euros"), " ")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (["Du", "cat"], "returned 'cat' where the text has 'chien dort.  Oui !' \\(character 3\\)"),
        (["Du", "chien", "dort", ".", "Oui"], "left out '!' at the end"),
        (["Du chien dort.  Oui !", "!"], "returned '!' where the text has '' \\(character 21\\)"),
        (None, "not None"),
        ({"words": ["Du"]}, "has to return words"),
    ],
)
def test_what_is_not_the_text(found, message):
    with pytest.raises(UserError, match=message):
        outside_words(lambda text: found, TEXT)
