"""Tokenizers of the small random set, with which it is whole: the engine runs suites on it.

A few words of a street are tokens, any other word is one that is not known. Its pictures mean nothing.
"""

from __future__ import annotations

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

_WORDS = (
    *("a", "red", "blue", "car", "bus", "on", "the", "street", "road", "at", "night", "in", "rain", "fog", "snow"),
    *("day", "clear", "sunny", "tree", "house", "people", "by"),
)
_END = "<|endoftext|>"


def clip_tokenizer(vocabulary: int, length: int) -> Tokenizer:
    """Ends, cuts and pads texts to `length` tokens, as CLIP's does; the end is the last of `vocabulary` tokens."""
    end = vocabulary - 1
    known = {word: i + 1 for i, word in enumerate(_WORDS)}
    tokenizer = Tokenizer(WordLevel({"[?]": 0, **known, _END: end}, unk_token="[?]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single=f"$A {_END}", special_tokens=[(_END, end)])
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=end, pad_token=_END)
    return tokenizer


def sentence_tokenizer(vocabulary: int) -> Tokenizer:
    """Words of which there are at most `vocabulary`, padding 0; neither cut nor padded."""
    known = {"[PAD]": 0, "[?]": 1, **{word: i + 2 for i, word in enumerate(_WORDS)}}
    assert len(known) <= vocabulary
    tokenizer = Tokenizer(WordLevel(known, unk_token="[?]"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer


def opt_tokenizer(vocabulary: int, end: int) -> Tokenizer:
    """As many tokens as the decoder has: padding 1, beginning 2, `end` a new line, and words, as far as they go."""
    known = {"[?]": 0, "<pad>": 1, "<s>": 2, "\n": end}
    free = (i for i in range(vocabulary) if i not in known.values())
    words = dict(zip([*_WORDS, *(f"word{i}" for i in range(vocabulary))], free, strict=False))
    tokenizer = Tokenizer(WordLevel(known | words, unk_token="[?]"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer
