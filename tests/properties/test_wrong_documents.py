"""Kinds of noise that look at texts, sources and queries: what holds for every set of pairs, rate and seed."""

import re
from collections import Counter
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyir.base.errors import DataError
from noisyir.corruption.kinds import Corruption
from noisyir.corruption.kinds.changed_texts import (
    Vague,
    draw_by_weight,
    entities,
    part_of,
    swapped,
    vagueness,
    without_words,
)
from noisyir.corruption.kinds.other_documents import Absent, Confusable, SameSource, best_first
from noisyir.corruption.versions import named
from noisyir.retrieval.analysis import STOP_WORDS
from tests.refusals import refuses
from tests.training_pairs import training_pairs

WORDS = "Anna Bert 1999 12 the of cat dog bird fish tree".split()
REWRITING = ("half_answer", "swapped_entities", "words_left_out")
LOOKING = ("same_source", "confusable", "vague", "absent", *REWRITING)

seeds = st.integers(0, 2**32)
rates = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.6, 0.9, 1.0])
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=4, max_size=12, unique=True)


@st.composite
def worlds(draw):
    """Pairs of up to 8 queries and the documents, no two alike, with sources, questions and for some an answer."""
    documents = draw(texts)
    number = st.integers(0, len(documents) - 1)
    pairs = draw(st.lists(st.tuples(st.integers(0, 7), number), min_size=6, max_size=25, unique=True))
    return training_pairs(
        [query for query, _ in pairs],
        [document for _, document in pairs],
        documents,
        source=draw(st.lists(st.integers(-1, 2), min_size=len(pairs), max_size=len(pairs))),
        questions=draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), min_size=8, max_size=8)),
        answers=draw(st.dictionaries(st.integers(0, 7), st.sampled_from(WORDS), max_size=2)),
        seed=draw(seeds),
        work=Path(gettempdir()),
    )


def is_right(world, row, document):
    return [int(world.query[row]), document] in world.known.tolist() or world.holds_answer(row, world.texts[document])


@pytest.mark.parametrize("kind", LOOKING)
@settings(max_examples=40)
@given(world=worlds(), rate=rates)
def test_exactly_the_share_gets_a_wrong_document_that_is_new_to_its_query_or_the_error_says_why(kind, world, rate):
    noise = Corruption.parse({"kind": kind, "rate": rate})
    try:
        spoilt = noise.spoil(world)
    except DataError as error:
        assert re.search(r"set [\d.]+ or less|needs pairs with a source|lower noise\.rate", str(error))
        return
    assert len(spoilt.rows) == round(rate * len(world.query)) and (np.diff(spoilt.rows) > 0).all()
    asked = world.query[spoilt.rows].tolist()
    if kind in REWRITING:
        assert len(spoilt.texts) == len(spoilt.rows) == len(set(zip(asked, spoilt.texts, strict=True)))
        for row, text in zip(spoilt.rows.tolist(), spoilt.texts, strict=True):
            assert text.strip() and not world.is_there(text) and not world.holds_answer(row, text)
    else:
        drawn = spoilt.documents.tolist()
        assert len(drawn) == len(spoilt.rows) == len(set(zip(asked, drawn, strict=True)))
        assert not any(
            is_right(world, row, document) for row, document in zip(spoilt.rows.tolist(), drawn, strict=True)
        )
    again = noise.spoil(world)
    np.testing.assert_array_equal(spoilt.rows, again.rows)
    np.testing.assert_array_equal(spoilt.documents, again.documents)
    assert list(spoilt.texts) == list(again.texts), "the seed alone decides"


@pytest.mark.parametrize("kind", ["same_source", "confusable", *REWRITING])
@settings(max_examples=40)
@given(world=worlds())
def test_the_highest_rate_named_can_be_asked_for(kind, world):
    try:
        Corruption.parse({"kind": kind, "rate": 1}).spoil(world)
    except DataError as error:
        if found := re.search(r"set ([\d.]+) or less", str(error)):
            highest = float(found[1])
            assert len(Corruption.parse({"kind": kind, "rate": highest}).spoil(world).rows) == round(
                highest * len(world.query)
            )


@given(world=worlds(), rate=rates)
def test_the_same_source_has_a_pair_with_that_document(world, rate):
    try:
        spoilt = SameSource(rate=rate).spoil(world)
    except DataError:
        return
    there = set(zip(world.source.tolist(), world.document.tolist(), strict=True))
    for row, document in zip(spoilt.rows.tolist(), spoilt.documents.tolist(), strict=True):
        assert world.source[row] >= 0 and (int(world.source[row]), document) in there


def test_every_other_document_of_the_source_is_equally_likely(tmp_path):
    """The pairs of 4,000 queries with document 0 have two others in their source, and a third of another."""
    count = 4_000
    query = [*range(count), count, count + 1, count + 2]
    world = training_pairs(
        query, [0] * count + [1, 2, 3], ["a", "b", "c", "d"], source=[0] * (count + 2) + [1], work=tmp_path
    )
    spoilt = SameSource(rate=0.9).spoil(world)
    drawn = np.bincount(spoilt.documents[world.document[spoilt.rows] == 0], minlength=4)
    assert drawn[0] == drawn[3] == 0
    np.testing.assert_allclose(drawn[1:3], drawn.sum() / 2, atol=4 * np.sqrt(drawn.sum() / 4))


def test_pairs_without_sources_are_told_so(tmp_path):
    with refuses(DataError, "corruption.no_sources"):
        SameSource(rate=0.5).spoil(training_pairs([0, 1], [0, 1], ["a", "b"], work=tmp_path))
    alone = training_pairs([0, 1, 2], [0, 1, 2], ["a", "b", "c"], source=[0, 0, 1], work=tmp_path)
    assert SameSource(rate=0.66).spoil(alone).rows.tolist() == [0, 1], "the third is passed over"
    with refuses(DataError, "corruption.rate_too_high", able=2, pairs=3):
        SameSource(rate=1).spoil(alone)


def test_a_confusable_document_is_one_that_bm25_ranks_high(tmp_path):
    """Each query shares two words with its own document, then one with 3 others, and none with the rest."""
    documents = [f"x{n} y{n} z{n // 4} filler" for n in range(40)]
    world = training_pairs(
        range(40), range(40), documents, questions=[f"x{n} z{n // 4}" for n in range(40)], work=tmp_path
    )
    spoilt = Confusable(rate=1, depth=3).spoil(world)
    assert (spoilt.documents // 4 == spoilt.rows // 4).all() and (spoilt.documents != spoilt.rows).all()
    best = Confusable(rate=1, depth=1).spoil(world)
    assert set(np.unique(best.documents - 4 * (best.rows // 4))) <= {0, 1}, "equal ones in their order"


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 8))
def test_all_that_share_a_word_come_the_best_first_and_equal_ones_in_their_order(scores, size):
    class Scored:
        def scores(self, question):
            return np.array(scores, np.float32)

    came = [number for block in best_first(Scored(), "", size) for number in block.tolist()]
    sharing = [number for number, score in enumerate(scores) if score]
    assert came == sorted(sharing, key=lambda number: (-scores[number], number))


def test_a_query_that_shares_no_word_is_passed_over(tmp_path):
    documents = ["cat dog", "cat bird", "fish", "tree"]
    world = training_pairs(range(4), range(4), documents, questions=["cat", "cat", "wolf", ""], work=tmp_path)
    assert Confusable(rate=0.5).spoil(world).rows.tolist() == [0, 1]
    with refuses(DataError, "corruption.rate_too_high"):
        Confusable(rate=0.75).spoil(world)


@given(world=worlds(), rate=rates)
def test_no_pair_is_left_of_a_document_that_leaves_and_no_wrong_pair_names_one(world, rate):
    try:
        spoilt = Absent(rate=rate).spoil(world)
    except DataError:
        return
    kept = np.delete(world.document, spoilt.rows).tolist()
    leaving = set(spoilt.leaving.tolist())
    assert not leaving & {*kept, *spoilt.documents.tolist()}
    stayed = set(world.document[spoilt.rows].tolist()) - leaving
    assert len(stayed) <= 1, "of one document alone, the last, some pairs may be right"


def test_every_document_may_leave(tmp_path):
    worlds = [training_pairs(range(8), range(8), list("abcdefgh"), work=tmp_path, seed=seed) for seed in range(60)]
    assert {int(Absent(rate=0.125).spoil(world).leaving[0]) for world in worlds} == set(range(8))


@given(st.lists(st.floats(0.01, 100), max_size=40), st.floats(0, 1), seeds)
def test_a_draw_by_weight_has_its_size_and_each_row_once(weights, rate, seed):
    wanted = round(rate * len(weights))
    rows = draw_by_weight(np.array(weights, np.float64), wanted, np.random.default_rng(seed))
    assert len(rows) == len(set(rows.tolist())) == wanted and (np.diff(rows) > 0).all()


def test_one_row_is_drawn_in_proportion_to_its_weight():
    weights, rng = np.array([1.0, 2.0, 5.0]), np.random.default_rng(0)
    drawn = np.bincount([draw_by_weight(weights, 1, rng)[0] for _ in range(8_000)], minlength=3)
    expected = 8_000 * weights / 8
    np.testing.assert_allclose(drawn, expected, atol=4 * np.sqrt(8_000 * 0.25))


def test_short_and_common_queries_are_vague(tmp_path):
    questions = ["cat", "cat dog", "cat dog bird fish", ""]
    np.testing.assert_allclose(vagueness(questions, "length"), [1, 1 / 2, 1 / 4, 1])
    rarity = vagueness(questions, "rarity")
    np.testing.assert_allclose(rarity[:2], [1 / np.log(1 + 4 / 3), 2 / (np.log(1 + 4 / 3) + np.log(3))])
    assert rarity[0] > rarity[1] > rarity[2] and rarity[3] == 1 / np.log(2)
    long, short = "cat dog bird fish tree", "cat"
    world = training_pairs(range(400), range(400), [f"t{n}" for n in range(400)],
                           questions=[short if n < 200 else long for n in range(400)], work=tmp_path)  # fmt: skip
    rows = Vague(rate=0.25).spoil(world).rows
    assert (rows < 200).sum() >= 85, "25 to 1 by weight"


words = st.lists(st.sampled_from(WORDS), min_size=2, max_size=30)


@given(words, st.sampled_from(["first", "last", "ends"]), st.floats(0, 1))
def test_a_part_has_its_share_of_the_words_in_their_order(words, part, keep):
    count = min(max(1, round(keep * len(words))), len(words) - 1)
    text, cut = "  ".join(words), {"first": count, "last": 0, "ends": (count + 1) // 2}[part]
    expected = words[:cut] + words[len(words) - (count - cut) :]
    assert part_of(text, part, keep).split() == expected and len(expected) == count
    assert part != "first" or text.startswith(part_of(text, part, keep)), "spaced as it was"
    assert part_of("word", part, keep) == part_of("", part, keep) == ""


@given(words, st.floats(0, 1), seeds)
def test_exactly_the_share_of_content_words_is_left_out(words, share, seed):
    content = [word for word in words if word not in STOP_WORDS]
    left = without_words(" ".join(words), share, np.random.default_rng(seed)).split()
    if not content:
        assert left == []
        return
    gone = Counter(words) - Counter(left)
    assert sum(gone.values()) == max(1, round(share * len(content))) and set(gone) <= set(content)
    remaining = iter(words)
    assert all(word in remaining for word in left), "what stays keeps its order"


def test_entities_are_names_and_numbers_by_their_kind():
    text = "The cat met Anna von Bert in New York. In 1858 J. Smith had 3 of 12,000 ValueErrors. Cats. Then Élan 2100!"
    assert [(entity.text, entity.kind) for entity in entities(text)] == [
        ("Anna", "name 1"), ("Bert", "name 1"), ("New York", "name 2"), ("1858", "year"), ("J. Smith", "name 2"),
        ("3", "number 1"), ("12,000", "number 4"), ("ValueErrors", "name 1"), ("Élan", "name 1"), ("2100", "number 4"),
    ]  # fmt: skip
    assert all(text[entity.start : entity.end] == entity.text for entity in entities(text))


@given(words, st.floats(0, 1), seeds)
def test_entities_are_swapped_throughout_and_the_rest_stays(words, share, seed):
    text = "so " + " and ".join(words)
    found = entities(text)
    if not found:
        return
    made = swapped(text, found, share, lambda entity, own: f"<{entity.text}>", np.random.default_rng(seed))
    assert re.sub("[<>]", "", made) == text, "nothing else changes"
    marked = set(re.findall(r"<([^>]*)>", made))
    assert len(marked) == max(1, round(share * len({entity.text for entity in found})))
    assert made.count("<") == sum(entity.text in marked for entity in found), "each wherever it stands"
    same = swapped(text, found, share, lambda entity, own: None, np.random.default_rng(seed))
    assert same == text, "where no other came, it stays as it was"


def test_what_is_swapped_in_is_of_the_same_kind_and_from_another_document(tmp_path):
    documents = ["we saw Anna in 1858 with 3 cats", "he met Bert in 1999 and 7 dogs", "of Carl and 2001 we know 9"]
    world = training_pairs(range(3), range(3), documents, work=tmp_path)
    spoilt = Corruption.parse({"kind": "swapped_entities", "rate": 1}).spoil(world)
    own = [("Anna", "1858", "3"), ("Bert", "1999", "7"), ("Carl", "2001", "9")]
    for row, text in zip(spoilt.rows.tolist(), spoilt.texts, strict=True):
        for n, others in enumerate(zip(*own, strict=True)):
            assert own[row][n] not in text.split() and sum(other in text.split() for other in others) == 1


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "z"])), max_size=12),
    st.sets(st.sampled_from(["a~half1", "a~half2", "b~half1"])),
)
def test_new_documents_are_named_after_their_originals_and_never_as_another(given_texts, in_use):
    originals, new = [doc for doc, _ in given_texts], [text for _, text in given_texts]
    made = named(originals, new, "half", in_use)
    assert sorted(made.texts) == sorted(set(new)) and len(made.doc_ids) == len(set(made.doc_ids)) == len(made.texts)
    assert not set(made.doc_ids) & in_use
    for original, doc_id, text in zip(made.originals, made.doc_ids, made.texts, strict=True):
        assert re.fullmatch(rf"{original}~half\d+", doc_id) and (original, text) in given_texts
