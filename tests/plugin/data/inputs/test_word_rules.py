"""Raw text in many scripts, split into words and sentences."""

from __future__ import annotations

import unicodedata

import pytest

from msattn import UserError
from msattn.data.inputs.raw_text import split_text
from msattn.data.inputs.word_rules import ANY_LANGUAGE, LANGUAGES, SPACES, language_of, word_spans
from msattn.data.inputs.words import split_words

# Sentences between |, words between spaces; ~ stands where the text has no space.
SENTENCES = {
    "any": [
        "Dogs sleep~.|Cats eat mice~.",
        "Pay $~3.14~, 1,000 or 10:30 at http://x.org/a?b=1~, a.b@c.com~.",
        "Wait~...|What~?!|So~!!!|I said so~, e.g. here in the U.S. of Dr. J. Smith~.",
        "un~-~payer's file.txt l’été~.|1~. A list~.",
        "C. I. Lewis met I. M. Pei~.|It was I~.|Then it was J. Smith~.",
        '(~He left~.~)|She said "~Go~!~"|Then it ended etc.|Good~.',
        'He asked "~why~?~" and left~.',
        "“~太好了~！~”~，~张三说~。|“~Go~!~”~, Ann said~.|本当~？~！",
    ],
    "en": ["I could~n't~'ve gone~: it~'s John~'s e-mail~, can~not do~n’t~.", "the long~-~term non-EU plan"]
    + ["A Ph.D. on p. 5~, ca. 3 of No. 10 and pp.~5 (~cf. Fig. 2 et al. 2019~)~.|He said no~.|Yes~."],
    "fr": ["L'~homme n'~a~-t-il pas l’~été à Aujourd'hui ~?|Donne~-moi ça peut-être~.", "Le rendez-vous~."]
    + ["C'est-à-dire St. Malo~, c'~est à dire ici~."],
    "it": ["L'~anno c'~è il po~'~."],
    "de": ["Die Nord-Süd-Bahn fährt z.B. um 10:30 Uhr~.|Dr. Müller geht~."],
    "hi": ["मैं हिन्दी में लिखता हूँ~।|आप कैसे हैं~?"],
    "ta": ["நான் தமிழ் பேசுகிறேன்~.|வணக்கம்~!"],
    "bn": ["আমি বাংলায় কথা বলি~।|কী~?"],
    "th": ["ฉันรักภาษาไทย และ แมว ~!"],
    "ar": ["ذَهَبَ الوَلَدُ إِلَى المَدْرَسَةِ~؟|نعم~."],
    "fa": ["می\u200cخواهم بروم~."],
    "he": ["בְּרֵאשִׁית בָּרָא אֱלֹהִים צה\"ל ג'ירפה צ׳ק~."],
    "vi": ["Tôi nói tiếng Việt~.|Được~!"],
    "ja": ["私は猫が好きです~。~|犬も好き~!"],
    "emoji": ["👩‍👩‍👧‍👦~👍🏽~👍 🇩🇪~🏴󠁧󠁢󠁥󠁮󠁧󠁿 1️⃣ ❤️ :-) ok"],
}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("name", SENTENCES)
def test_every_script(name, form):
    for marked in SENTENCES[name]:
        marked = unicodedata.normalize(form, marked)
        expected = [[word for word in part.replace("~", " ").split(" ") if word] for part in marked.split("|")]
        text = marked.replace("~|", "").replace("|", " ").replace(" ~", " ").replace("~", "")
        sentences = split_text(text, lang=name if name in LANGUAGES else None)
        assert [[word.text for word in words] for words in sentences] == expected
        words = [word for words in sentences for word in words]
        tokens = {word.start: (word.token or word.text) + word.space_after for word in words}
        assert "".join(tokens.values()) == text
        assert all(text[word.start : word.end] == (word.token or word.text) for word in words)


# Words of tokens, with + between.
CONTRACTED = {
    "en": "do+n't ca+n’t could+n't+'ve it+'s John+'s can+not gon+na",
    "fr": "Du=De+le des=de+les AUX=À+LES auquel=à+lequel",
    "it": "dai=da+i col=con+il",
    "es": "Al=A+el del=de+el",
    "de": "Im=In+dem zur=zu+der fürs=für+das",
}


@pytest.mark.parametrize("lang", CONTRACTED)
def test_contractions(lang):
    for entry in CONTRACTED[lang].split():
        token, _, words = entry.rpartition("=")
        token = token or words.replace("+", "")
        found = [(word.text, word.token) for word in split_text(token, lang=lang)[0]]
        assert found == [(word, token) for word in words.split("+")]
    assert [word.text for word in split_text("Nell'anno dell’era", lang="it")[0]] == "In l' anno di l’ era".split()
    assert [word.text for word in split_text("du don't", lang=None)[0]] == ["du", "don't"]


def test_signs_without_a_width_are_spaces():
    (words,) = split_text("\ufeffDogs\u200b sleep\u200e.")
    assert [(word.text, word.space_after) for word in words] == [("Dogs", "\u200b "), ("sleep", "\u200e"), (".", "")]
    assert split_words("New\u200bYork's a\ufeffb 1\u200b000") == ["New\u200bYork's", "a\ufeffb", "1\u200b000"]
    assert split_words("\u0e2a\u0e27\u200b\u0e14\u0e35 a\u200b") == ["\u0e2a\u0e27", "\u0e14\u0e35", "a"]


def test_long_runs_of_signs_are_split():
    assert len(split_text("It" + "'s" * 3000, lang="en")[0]) == 3001
    assert len(split_text("a-" * 5000)[0]) == 10_000
    assert len(split_text("a" + " " * 20_000 + ".")[0]) == 2


def test_every_sign_is_in_one_word():
    letters = [chr(code) for code in range(0x3000) if not 0xD800 <= code < 0xE000]
    for text in ("".join(letters), " ".join(letters)):
        spans = [*word_spans(text)]
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
        kept = {place for span in spans for place in range(*span)}
        assert all(SPACES.fullmatch(text[place]) for place in range(len(text)) if place not in kept)


def test_paragraphs_and_spaces():
    text = "A title\n\nDogs\nsleep\t . \r\n\r\nBye\u2029So"
    found = [[word.text for word in words] for words in split_text(text)]
    assert found == [["A", "title"], ["Dogs", "sleep", "."], ["Bye"], ["So"]]
    assert split_text(" \n") == split_text("") == []


def test_languages():
    assert language_of(None) is ANY_LANGUAGE and language_of("en-GB") is language_of("EN_us") is LANGUAGES["en"]
    with pytest.raises(UserError, match="no rules for the language 'ja', only for de, en, es, fr, it; leave it out"):
        language_of("ja")
    # Without a language, no word is split.
    assert split_words("don't l'été") == ["don't", "l'été"]
