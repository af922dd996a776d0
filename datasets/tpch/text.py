"""The text pool that comments are cut from: 300 MiB of grammar text, whole or in blocks.

A sentence is made by drawing a form, then phrase forms, then words. Blocks of 256 sentences start at known
draws and bytes (the checkpoint table), so blocks are made independently: one lane of draws for each block,
all lanes advanced together, a few array operations for each sentence. Few comments make only the blocks
that they touch; many make the whole pool once, as a file in the cache that is mapped by all afterwards.
Invariant: the same (offset, length) gives the same bytes either way. Used by `rows`.
"""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datasets.cachedir import cache_root
from datasets.tpch.streams import MODULUS, POWERS, TEXT_SEED, draws, reduce

POOL_BYTES = 300 << 20
POOL_MD5 = "0f85e3af02482a7035e80b448c795a4c"
SENTENCES_PER_BLOCK = 256
_WIDTH = 3328  # draws of a lane: more than any block takes (3249)
_LANES = 256  # blocks made at once: 7 MB for each array
_WHOLE_POOL_FROM = 3000
"""Blocks made by a process; beyond, making the pool once is cheaper than making blocks again each time."""

# What a draw turns into, by category. The *_END ones lack the blank, since a terminator follows.
_SILENT, _NOUN, _VERB, _ADVERB, _NOUN_END, _VERB_END, _ADVERB_END = range(7)
_ADJECTIVE, _ADJECTIVE_COMMA, _AUXILIARY, _PREPOSITION, _TERMINATOR = range(7, 12)
_TO_END = 3
_CATEGORIES = 12

# Phrases as the categories of their words; a silent place after the last word belongs to the next phrase.
_NOUN_PHRASES = (
    (10, (_NOUN,)),
    (20, (_ADJECTIVE, _NOUN)),
    (10, (_ADJECTIVE_COMMA, _ADJECTIVE, _NOUN)),
    (50, (_ADVERB, _ADJECTIVE, _NOUN)),
)
_VERB_PHRASES = (
    (30, (_VERB,)),
    (1, (_AUXILIARY, _VERB)),
    (40, (_VERB, _ADVERB)),
    (1, (_AUXILIARY, _VERB, _ADVERB)),
)
# Sentences: N V T, N V P T, N V N T, N P V N T, N P V P T, as (weight, P after N, what follows V).
_NOTHING, _NOUN_PHRASE, _PREPOSITIONAL = range(3)
_SENTENCES = (
    (3, False, _NOTHING),
    (3, False, _PREPOSITIONAL),
    (3, False, _NOUN_PHRASE),
    (1, True, _NOUN_PHRASE),
    (1, True, _PREPOSITIONAL),
)


def _spread(weights: list[int]) -> NDArray[np.intp]:
    """Index of the member that a draw of 0..sum(weights)-1 picks."""
    return np.repeat(np.arange(len(weights)), weights)


_SENTENCE_OF = _spread([weight for weight, *_ in _SENTENCES])
_P_AFTER_N = np.array([inner for _, inner, _ in _SENTENCES])[_SENTENCE_OF]
_AFTER_V = np.array([last for *_, last in _SENTENCES])[_SENTENCE_OF]


def _phrase_tables(phrases: tuple[tuple[int, tuple[int, ...]], ...]) -> tuple[int, NDArray, NDArray]:
    """(sum of weights, draws taken by draw, categories of three words by draw)."""
    pick = _spread([weight for weight, _ in phrases])
    taken = np.array([1 + len(words) for _, words in phrases], np.uint8)
    words = np.array([(*words, *[_SILENT] * (3 - len(words))) for _, words in phrases], np.uint8)
    return len(pick), taken[pick], words[pick]


_NP_WEIGHT, _NP_DRAWS, _NP_WORDS = _phrase_tables(_NOUN_PHRASES)
_VP_WEIGHT, _VP_DRAWS, _VP_WORDS = _phrase_tables(_VERB_PHRASES)


@cache
def _tokens() -> tuple[NDArray[np.float64], NDArray[np.int16], pa.Array]:
    """(weight sum by category, token by category * 512 + draw, token texts)."""
    lists = json.loads(files(__package__).joinpath("words.json").read_text())["lists"]
    suffix = {
        _NOUN: ("nouns", " "),
        _VERB: ("verbs", " "),
        _ADVERB: ("adverbs", " "),
        _NOUN_END: ("nouns", ""),
        _VERB_END: ("verbs", ""),
        _ADVERB_END: ("adverbs", ""),
        _ADJECTIVE: ("adjectives", " "),
        _ADJECTIVE_COMMA: ("adjectives", ", "),
        _AUXILIARY: ("auxiliaries", " "),
        _PREPOSITION: ("prepositions", " the "),
        _TERMINATOR: ("terminators", " "),
    }
    weights = np.ones(_CATEGORIES)
    tokens = np.zeros(_CATEGORIES * 512, np.int16)
    texts = [""]
    for category, (name, after) in suffix.items():
        pick = _spread([weight for _, weight in lists[name]])
        weights[category] = len(pick)
        tokens[category * 512 : category * 512 + len(pick)] = pick + len(texts)
        texts += [word + after for word, _ in lists[name]]
    return weights, tokens, pa.array(texts, pa.large_string())


@cache
def _checkpoints() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First byte and first draw of each block; one more byte entry closes the last block."""
    with files(__package__).joinpath(f"pool_checkpoints_{SENTENCES_PER_BLOCK}.npy").open("rb") as file:
        deltas = np.load(file)
    starts = np.concatenate([np.zeros((2, 1), np.int64), np.cumsum(deltas, axis=1, dtype=np.int64)], axis=1)
    return np.append(starts[0], POOL_BYTES), starts[1]


def _at(fraction: NDArray[np.float64], positions: NDArray[np.int64], weight: int) -> NDArray[np.int64]:
    return (fraction[positions] * weight).astype(np.int64)


def _sentence_starts(fraction: NDArray[np.float64], lanes: int) -> NDArray[np.int64]:
    """Positions of the first draws of all sentences of all lanes, by walking the lanes together."""
    np_draws = _NP_DRAWS[(fraction * _NP_WEIGHT).astype(np.int8)]
    limit = (
        np.arange(1, lanes + 1) * _WIDTH - 32
    )  # only the last block of the pool, cut anyway, may run into it
    here = np.arange(lanes) * _WIDTH
    starts = np.empty((SENTENCES_PER_BLOCK, lanes), np.int64)
    for step in range(SENTENCES_PER_BLOCK):
        starts[step] = here
        form = _at(fraction, here, len(_SENTENCE_OF))
        here = here + 1
        here += np_draws[here]
        here += np.where(_P_AFTER_N[form], 1 + np_draws[here + 1], 0)
        here += _VP_DRAWS[_at(fraction, here, _VP_WEIGHT)]
        last = _AFTER_V[form]
        here += last == _PREPOSITIONAL
        here += np.where(last != _NOTHING, np_draws[here], 0)
        here = np.minimum(here + 1, limit)
    return starts.reshape(-1)


def _categories(fraction: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The category of each draw; laid in order, a phrase overwrites the silent places of the one before."""
    out = np.zeros(len(fraction), np.uint8)

    def lay(here: NDArray[np.int64], weight: int, taken: NDArray, words: NDArray) -> NDArray[np.int64]:
        pick = _at(fraction, here, weight)
        for place in range(3):
            out[here + 1 + place] = words[pick, place]
        return here + taken[pick]

    def lay_nouns(here: NDArray[np.int64]) -> NDArray[np.int64]:
        return lay(here, _NP_WEIGHT, _NP_DRAWS, _NP_WORDS)

    form = _at(fraction, starts, len(_SENTENCE_OF))
    here = lay_nouns(starts + 1)
    inner = np.flatnonzero(_P_AFTER_N[form])
    out[here[inner]] = _PREPOSITION
    here[inner] = lay_nouns(here[inner] + 1)
    here = lay(here, _VP_WEIGHT, _VP_DRAWS, _VP_WORDS)
    last = _AFTER_V[form]
    with_preposition = np.flatnonzero(last == _PREPOSITIONAL)
    out[here[with_preposition]] = _PREPOSITION
    here[with_preposition] += 1
    more = np.flatnonzero(last != _NOTHING)
    here[more] = lay_nouns(here[more])
    out[here] = _TERMINATOR
    out[here - 1] += _TO_END
    return out


def _make(blocks: NDArray[np.int64]) -> memoryview:
    """The text of `blocks`, one after the other (the pool's last block to its 256th sentence, uncut)."""
    weights, tokens, texts = _tokens()
    first = draws(TEXT_SEED, _checkpoints()[1][blocks])
    states = reduce(first[:, None] * POWERS[:_WIDTH]).reshape(-1)
    fraction = states / float(MODULUS)
    category = _categories(fraction, _sentence_starts(fraction, len(blocks)))
    pick = (fraction * weights[category]).astype(np.int64)
    pick += category.astype(np.int64) << 9
    drawn = texts.take(pa.array(tokens[pick]))
    return memoryview(drawn.buffers()[2])[: int(np.frombuffer(drawn.buffers()[1], np.int64)[len(drawn)])]


def _make_all(blocks: NDArray[np.int64]) -> Iterator[memoryview]:
    """The text of `blocks` in pieces, two pieces in the making at a time."""
    groups = np.array_split(blocks, max(1, -(-len(blocks) // _LANES)))
    with ThreadPoolExecutor(2) as pool:
        pending = [pool.submit(_make, group) for group in groups[:2]]
        for index in range(len(groups)):
            yield pending.pop(0).result()
            if index + 2 < len(groups):
                pending.append(pool.submit(_make, groups[index + 2]))


def _pool_path() -> Path:
    return cache_root() / "tpch" / "text-pool-1.txt"


def pool_file() -> Path:
    """The whole pool as a file in the cache, made on first use (a few seconds, 300 MiB)."""
    path = _pool_path()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        left = POOL_BYTES
        with temporary.open("wb") as out:
            for piece in _make_all(np.arange(len(_checkpoints()[1]))):
                left -= out.write(piece[:left])
        temporary.replace(path)
    return path


_made: list[int] = []  # blocks, by call


def comments(offset: NDArray[np.int64], length: NDArray[np.int64]) -> pa.StringArray:
    """The slices [offset, offset + length) of the pool."""
    starts = _checkpoints()[0]
    first = np.searchsorted(starts, offset, side="right") - 1
    last = np.searchsorted(starts, offset + length - 1, side="right") - 1
    wanted = np.unique(np.concatenate([first, last]))
    _made.append(len(wanted))
    if sum(_made) > _WHOLE_POOL_FROM or _pool_path().exists():
        return _slices(np.memmap(pool_file(), np.uint8, "r"), offset, length)
    text = np.frombuffer(b"".join(_make_all(wanted)), np.uint8) if len(wanted) else np.empty(0, np.uint8)
    offsets = np.concatenate([[0], np.cumsum(starts[wanted + 1] - starts[wanted])])
    return _slices(text, offset - starts[first] + offsets[np.searchsorted(wanted, first)], length)


def _slices(text: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]) -> pa.StringArray:
    ends = np.concatenate([[0], np.cumsum(length)])
    source = np.arange(ends[-1]) + np.repeat(offset - ends[:-1], length)
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(text[source])]
    return pa.Array.from_buffers(pa.string(), len(length), buffers)
