"""Words of texts, and what one pass over a corpus keeps."""

import pyarrow as pa

from noisyir.audits.texts import names_nothing, overlap, read_texts, shared_words, words


def test_words_are_folded_runs_of_letters_marks_and_digits():
    assert words("Straße_7: don't; caf\u00e9, हिन्दी!") == ["strasse", "7", "don", "t", "caf\u00e9", "हिन्दी"]
    assert shared_words("Where is BERN?", "Bern is a city", {"is"}) == {"bern"}


def test_words_of_more_than_a_tenth_of_the_texts_are_common_once_there_are_enough():
    texts = [f"the word{n}" + (" rare" if n < 10 else "") for n in range(100)]
    rows = pa.table({"doc_id": [f"d{n}" for n in range(100)], "title": [""] * 100, "text": texts})
    found = read_texts(rows.to_batches(30), pa.array(["d5"]), ["the rare word5"])
    assert found.common == {"the"} and found.corpus == 100
    assert found.documents.num_rows == 1
    few = read_texts(rows.slice(0, 40).to_batches(), pa.array(["d5"]), ["the rare word5"])
    assert few.common == set()


def test_the_overlap_is_the_share_of_common_words():
    assert overlap("Red, red fish", "a RED bird") == 1 / 4 and overlap("...", "") == 0


def test_a_question_that_points_and_names_nothing_is_vague():
    common = {"who", "the"}
    for vague in ("Who proposed this theory?", "When did he die? ", "Where is it?"):
        assert names_nothing(vague, common), vague
    for named in (
        "Who proposed this theory of Einstein?",
        "What happened to it in 1848?",
        "Who proposed the theory?",
        "Return whether this object is callable.",
        "Which of these rivers crosses many large old harbour towns?",
        "",
    ):
        assert not names_nothing(named, common), named
