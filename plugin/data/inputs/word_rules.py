"""Rules that split raw text into tokens, words and sentences, in every script that puts spaces between words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple
from unicodedata import normalize

import regex

from msattn.errors import UserError

Span = tuple[int, int]


class Language(NamedTuple):
    """
    The rules that a language adds.

    Args:
        abbreviations (`str`): Words whose full stop belongs to them, without it.
        parts (`str`): A pattern of what is split into tokens, with a group for each.
        hyphened (`str`): A pattern of what a hyphen stays attached to.
        fused (`str`): A pattern of the tokens that are several words, with a group for each word.
        contractions (`str`): Tokens that stand for other words, such as `"du:de+le"`.
    """

    abbreviations: str
    parts: str = r"(?!)"
    hyphened: str = r"[\p{L}\p{N}]"
    fused: str = r"(?!)"
    contractions: str = ""


LANGUAGES = {
    "de": Language(
        "abs allg bsp bspw bzgl bzw ca dipl dr etc evtl fr ggf hr inkl insb jh kap max mio mrd nr prof sog st str tel "
        "usw vgl zzgl",
        contractions="am:an+dem ans:an+das aufs:auf+das beim:bei+dem durchs:durch+das fürs:für+das "
        "hinters:hinter+das im:in+dem ins:in+das übers:über+das ums:um+das unters:unter+das vom:von+dem vors:vor+das "
        "zum:zu+dem zur:zu+der",
    ),
    "en": Language(
        "adm al approx apr assn assoc aug ave bldg blvd ca capt cf co col corp dec dept dist dr eq eqs est etc ext "
        "feb fig figs fri gen gov hon inc intl jan jr lt ltd maj messrs mfg mr mrs ms mt nov oct orig ph.d prof pvt "
        "rd rep rev sec sen sept sgt sr st supt thu thurs tue tues univ vol vs",
        hyphened=r"\b(?i:anti|co|counter|e|ex|hi|inter|mid|mini|mis|multi|neo|non|post|pre|pro|re|semi|sub|super|ultra"
        r"|un|vice)",
        fused=r"(.*\p{L})(n['’]t)|(.+)(['’](?:s|m|d|re|ve|ll))|(can)(not)|(gon|wan)(na)|(got)(ta)"
        r"|(do|does|did|is|are|was|were|have|has|had|would|could|should)(nt)",
    ),
    "es": Language(
        "aprox avda dr dra etc fig máx mín núm prof pág págs sr sra srta tel vol", contractions="al:a+el del:de+el"
    ),
    "fr": Language(
        "apr av boul cf chap dr env etc ex fig hab janv juil mgr mlle mm mme mmes oct sept st ste tél vol",
        r"(?!c['’]est-\X-dire)((?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu)['’])(\p{L}.*)"
        r"|(?!rendez-vous|c['’]est-\X-dire)(\p{L}.*?)"
        r"(-(?:t-)?(?:je|tu|ils?|elles?|on|nous|vous|les?|la|lui|leur|moi|toi|ce|y|en))",
        contractions="au:à+le auquel:à+lequel aux:à+les auxquelles:à+lesquelles auxquels:à+lesquels des:de+les "
        "desquelles:de+lesquelles desquels:de+lesquels du:de+le duquel:de+lequel",
    ),
    "it": Language(
        "arch avv cfr dott dr ecc fig ing nr pag pagg prof sig sigg tel vol",
        r"(\p{L}+['’])(\p{L}.*)",
        r"(?!)",
        contractions=" ".join(
            f"{start}{end}:{preposition}+{article}"
            for start, preposition in (("a", "a"), ("da", "da"), ("de", "di"), ("ne", "in"), ("su", "su"))
            for end, article in zip(
                ("l", "llo", "lla", "ll'", "i", "gli", "lle"), ("il", "lo", "la", "l'", "i", "gli", "le"), strict=True
            )
        )
        + " col:con+il coi:con+i",
    ),
}
# Where the language is not known, a hyphen is a word of its own, and no token is split.
ANY_LANGUAGE = Language(" ".join(language.abbreviations for language in LANGUAGES.values()), hyphened=r"(?!)")

# Letters, marks, digits, and signs that nobody sees: joiners, the soft hyphen.
_LETTER = r"[\p{L}\p{M}\p{N}_\u00ad\u200c\u200d\u2060]"
# Line ends in the eyes of Python, but not of Unicode, are spaces, too, and so are signs without a width: zero-width
# spaces, marks of direction, a byte order mark. Between two letters these are inside a word, as tokenizers read them,
# except in scripts that put no other space between words.
_NO_WIDTH = r"\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff"
_SPACE = rf"[\s\x1c-\x1f{_NO_WIDTH}]"
CHINESE_OR_JAPANESE = r"\p{Han}\p{Hiragana}\p{Katakana}"
SOUTHEAST_ASIAN = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
UNSPACED = CHINESE_OR_JAPANESE + SOUTHEAST_ASIAN
# Scripts in which a name may touch letters that are not its own; in Korean, its particles.
ATTACHED = rf"{UNSPACED}\p{{Hangul}}"
SPACES = regex.compile(f"{_SPACE}*")
_ALONE = rf"(?<!{_LETTER})"
_ENDS = rf"(?!{_LETTER})"
_FACE = r"[:;=]['’-]?[()DPp]"
# The first one that fits is taken.
_WORDS = (
    # Addresses on the web and of e-mail, names, subjects.
    r"(?i:https?|ftp|file)://[^\s<>]*[\p{L}\p{N}/#&=]",
    r"(?i:www)\.[^\s<>]*[\p{L}\p{N}/]",
    rf"[\p{{L}}\p{{N}}_][\p{{L}}\p{{N}}_.+-]{{0,63}}@{_LETTER}+(?:[.-]{_LETTER}+)*",
    rf"[@#](?=\p{{L}}){_LETTER}+",
    # Abbreviations: U.S., J. before a name, those of the language.
    rf"{_ALONE}(?:\p{{L}}\p{{M}}*\.){{2,}}{_ENDS}",
    # "I." is one beside another initial.
    rf"{_ALONE}(?=\p{{Lu}})(?:(?!I)|(?<={_ALONE}\p{{Lu}}\.{_SPACE}*)|(?=I\.{_SPACE}+\p{{Lu}}\.))\p{{Lu}}\p{{M}}*\."
    rf"(?={_SPACE}+\p{{Lu}})",
    rf"{_ALONE}(?i:\L<abbreviations>)\.{_ENDS}",
    # No. 10, pp. 5-8.
    rf"{_ALONE}(?i:nos?|pp?)\.(?={_SPACE}*\p{{Nd}})",
    # Faces of signs, numbers with their signs, numbers of telephones.
    rf"(?<![^\s(]){_FACE}{_ENDS}",
    rf"\p{{Nd}}+(?:[.,:/٫٬]\p{{Nd}}+)+{_LETTER}*",
    r"\p{Nd}{3,}(?:-\p{Nd}{3,})+",
    # Letters, with the signs that stand between two of them; .doc.
    rf"(?:(?<![^\s(])\.(?=\p{{L}}))?{_LETTER}+(?:(?:['’ʼ·](?=\p{{L}})|\.(?=[\p{{Ll}}\p{{Nd}}])"
    rf"|(?<=\p{{Hebrew}})[\"״׳](?=\p{{Hebrew}})|(?<=\p{{Hebrew}})׳|HYPHEN"
    rf"|(?<![{UNSPACED}]\p{{M}}*)[{_NO_WIDTH}]++(?=[\p{{L}}\p{{N}}])(?![{UNSPACED}])){_LETTER}*)*",
    # The same sign several times; any other one, as it is seen: a flag, a family.
    r"[!?]{2,}",
    r"([\p{P}\p{S}--[\p{Ps}\p{Pe}\p{Pi}\p{Pf}\"\p{Extended_Pictographic}]])\1+",
    rf"(?!{_SPACE})\X",
)
_SENTENCE_END = regex.compile(r"(?i)\p{SB=ATerm}+|[\p{SB=STerm}…]+|(?:etc|ecc|usw|[ap]\.m)\.")
# Behind these, a sentence goes on.
_PAUSES = ",;،؛，、；："
# What starts no sentence, and what starts none without a space before it.
_CONTINUING = regex.compile(rf"[\p{{Pe}}\p{{Pf}}\p{{SB=ATerm}}\p{{SB=STerm}}…{_PAUSES}]+|{_FACE}")
_QUOTES = regex.compile(r"[\p{Pi}\"']+")
_ENUMERATOR = regex.compile(r"\p{Nd}{1,3}|\p{L}")
_PARAGRAPH = regex.compile(r"\n[^\S\n]*\n|\r\n?[^\S\r\n]*\r|\u2029")


def language_of(name: str | None) -> Language:
    """
    The rules of a language.

    Args:
        name (`str`, *optional*): Its code, such as `"en"`, also with a region, `"en-GB"`. Default: those that fit all.

    Raises:
        UserError: There are no rules for the language.
    """
    if name is None:
        return ANY_LANGUAGE
    code = regex.split("[-_]", str(name))[0].lower()
    if code not in LANGUAGES:
        raise UserError(
            f"there are no rules for the language {name!r}, only for {', '.join(LANGUAGES)}; leave it out for rules "
            "that fit every language with spaces, or give a word_tokenizer."
        )
    return LANGUAGES[code]


def word_spans(text: str, language: Language = ANY_LANGUAGE) -> Iterator[Span]:
    """
    Splits a text into tokens: words, contractions such as "du" (see [`parts_of_token`]) and punctuation marks.

    Every character but white space, and what has no width, is in one word. A combining mark stays with its letter, a
    joined sequence of emoji whole. Numbers, addresses, abbreviations and repeated signs are one word each. What is
    written without spaces between words, such as Japanese and Thai, is cut at punctuation only.

    Args:
        text (`str`): The text.
        language (`Language`, *optional*): See [`language_of`].

    Yields:
        `tuple[int, int]`: The span `[start, end)` of each word, in characters.
    """
    words, parts = _patterns(language)
    for match in words.finditer(text):
        yield from _parts(text, match.span(), parts)


def _parts(text: str, span: Span, pattern: regex.Pattern) -> Iterator[Span]:
    left = [span]
    while left:
        start, end = left.pop()
        match = pattern.fullmatch(text, start, end)
        if match is None:
            yield start, end
        else:  # "couldn't've" has three parts
            left += (match.span(number) for number in range(len(match.groups()), 0, -1) if match[number])


def parts_of_token(token: str, language: Language) -> list[str]:
    """
    The words of a token, most often one.

    Args:
        token (`str`): A token, such as "Du" or "don't".
        language (`Language`): See [`language_of`].

    Returns:
        `list[str]`: "De" and "le", "do" and "n't", or the token itself.
    """
    fused, contractions = _words_of(language)
    words = contractions.get(normalize("NFC", token.lower()).replace("’", "'"))
    if words is None:
        return [token[slice(*span)] for span in _parts(token, (0, len(token)), fused)]
    if token.isupper():
        words = [word.upper() for word in words]
    elif token[0].isupper():
        words = [words[0].capitalize(), *words[1:]]
    return [word.replace("'", "’") if "’" in token else word for word in words]


@cache
def _words_of(language: Language) -> tuple[regex.Pattern, dict[str, list[str]]]:
    pairs = (pair.split(":") for pair in language.contractions.split())
    fused = regex.compile(language.fused, regex.VERSION1 | regex.IGNORECASE)
    return fused, {token: words.split("+") for token, words in pairs}


@cache
def _patterns(language: Language) -> tuple[regex.Pattern, regex.Pattern]:
    hyphen = rf"(?<={language.hyphened}\p{{M}}*)[-‐‑](?=\p{{L}})"
    words = "|".join(_WORDS).replace("HYPHEN", hyphen)
    return (
        regex.compile(words, regex.VERSION1, abbreviations=language.abbreviations.split()),
        regex.compile(language.parts, regex.VERSION1 | regex.IGNORECASE),
    )


def sentence_words(text: str, words: Iterable[Span]) -> list[list[Span]]:
    """
    Groups the words of a text into sentences.

    A sentence ends with its mark (the full stop of any script) and the quotes and brackets behind it, and at an empty
    line. An abbreviation ends none, nor does a full stop before a small letter, nor a mark before a comma.

    Args:
        text (`str`): The text.
        words (`Iterable[tuple[int, int]]`): The spans of its words, in order; see [`word_spans`].

    Returns:
        `list[list[tuple[int, int]]]`: The words of each sentence.
    """
    sentences: list[list[Span]] = []
    ended = True
    for start, end in words:
        if sentences and ended:
            space = text[sentences[-1][-1][1] : start]
            if _CONTINUING.fullmatch(text, start, end) or (not space and _QUOTES.fullmatch(text, start, end)):
                sentences[-1].append((start, end))
                ended = text[start] not in _PAUSES
                continue
            ended = text[sentences[-1][-1][0]] in "?!" or not text[start].islower()
        if ended or _PARAGRAPH.search(text, sentences[-1][-1][1], start):
            sentences.append([])
        sentences[-1].append((start, end))
        ended = _is_end(text, sentences[-1])
    return sentences


def _is_end(text: str, words: list[Span]) -> bool:
    start, end = words[-1]
    if not _SENTENCE_END.fullmatch(text, start, end):
        return False
    # "2." and "b." stand before their sentence.
    return len(words) != 2 or text[start:end] != "." or not _ENUMERATOR.fullmatch(text, *words[0])
