"""The reader: made from an encoder, saved, read again; what it says of windows and their spans."""

import numpy as np
import torch

from noisyir.base.errors import DataError
from noisyir.readers.model import Spans, initial_reader, load_reader
from noisyir.readers.settings import InitReaderParams
from tests.refusals import refuses
from tests.tiny_models import static_encoder

QUESTIONS = [f"w{i} w{i + 1}" for i in range(40)]
PASSAGES = [" ".join(f"w{(i * 7 + j) % 60}" for j in range(1 + i % 11)) for i in range(40)]


def made(folder, seed=0, **params):
    return initial_reader(folder, InitReaderParams(**{"max_len": 24, "question_max_len": 4, **params}), seed)


def read(reader, rows, spans=None):
    questions = reader.tokenizer.questions([QUESTIONS[row] for row in rows])
    with torch.no_grad():
        return reader(questions, reader.tokenizer.passages([PASSAGES[row] for row in rows]).tokens, spans)


def test_it_is_saved_and_read_again_and_its_new_head_follows_from_the_seed(bert, tmp_path):
    readers = [made(bert, seed)[0] for seed in (1, 1, 2)]
    heads = [reader.model.qa_outputs.weight for reader in readers]
    assert heads[0].equal(heads[1]) and not heads[0].equal(heads[2])
    assert made(bert)[1] == ["qa_outputs.bias", "qa_outputs.weight"]
    readers[0].save(tmp_path / "one")
    again = load_reader(tmp_path / "one", "cpu")
    again.save(tmp_path / "two")
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert files[0] == files[1] and b"_name_or_path" not in files[0]["config.json"]
    assert read(readers[0], range(40)).start.equal(read(again, range(40)).start) and not again.training
    assert again.tokenizer.max_len == 24 and again.tokenizer.question_max_len == 4


def test_dropout_is_saved_with_the_reader_and_null_leaves_it(bert, tmp_path):
    def rates(dropout):
        made(bert, dropout=dropout)[0].save(tmp_path / str(dropout))
        modules = load_reader(tmp_path / str(dropout), "cpu").modules()
        return {module.p for module in modules if isinstance(module, torch.nn.Dropout)}

    assert rates(0.0) == {0.0} and rates(0.25) == {0.25} and rates(None) == {0.1}


def test_windows_of_any_lengths_and_number_read_as_they_do_alone(bert):
    reader, rows = made(bert)[0], np.arange(40)
    lengths = np.array([len(text.split()) for text in PASSAGES])
    spans = Spans(np.repeat(rows, 2), np.zeros(80, np.int64), np.repeat(lengths // 2, 2))
    together = read(reader, rows, spans)
    for row in rows:
        alone = read(reader, [row], Spans(np.array([0]), np.array([0]), lengths[[row]] // 2))
        for name in ("start", "end"):
            ours, theirs = getattr(together, name)[row], getattr(alone, name)[0]
            torch.testing.assert_close(ours[: lengths[row]], theirs, atol=1e-5, rtol=1e-5)
            assert ours[lengths[row] :].isneginf().all() and ours[: lengths[row]].isfinite().all()
        for name in ("question", "passage"):
            torch.testing.assert_close(getattr(together, name)[row], getattr(alone, name)[0], atol=1e-5, rtol=1e-5)
        for name in ("answer", "context"):
            torch.testing.assert_close(
                getattr(together, name)[2 * row + 1], getattr(alone, name)[0], atol=1e-5, rtol=1e-5
            )
    assert read(reader, rows).start.equal(together.start), "averages change no logit"


def test_vectors_are_means_of_the_tokens_they_are_named_after(bert):
    reader, _ = made(bert)
    spans = Spans(np.array([1, 1, 0]), np.array([2, 0, 0]), np.array([3, 7, 0]))
    found = read(reader, [5, 7], spans)  # passages of 6 and 8 words
    (ids,) = reader.tokenizer.join(
        reader.tokenizer.questions([QUESTIONS[7]]), reader.tokenizer.passages([PASSAGES[7]]).tokens
    ).ids
    assert len(ids) == 1 + 2 + 1 + 8 + 1
    types = torch.tensor([[0] * 4 + [1] * 9])
    with torch.no_grad():
        states = reader.model.bert(input_ids=torch.tensor(ids)[None], token_type_ids=types).last_hidden_state[0]
    for vector, rows in (
        (found.question[1], [1, 2]), (found.passage[1], range(4, 12)), (found.answer[0], [6, 7]),
        (found.context[0], [4, 5, 8, 9, 10, 11]), (found.answer[1], range(4, 12)),
    ):  # fmt: skip
        torch.testing.assert_close(vector, states[list(rows)].mean(dim=0), atol=1e-5, rtol=1e-5)
    assert not found.context[1].any(), "nothing is outside a span that is the whole passage"


def test_what_cannot_be_a_reader_is_refused(bert, tmp_path):
    with refuses(DataError, "readers.reader_init_max_len", max_len=16, room=3):
        made(bert, max_len=16, question_max_len=10)
    with refuses(DataError, "models.reads_too_little", limit=64, setting="reader.init.max_len"):
        made(bert, max_len=65)
    with refuses(DataError, "models.too_few_layers", found=2, setting="reader.init.layers"):
        made(bert, layers=3)
    static_encoder(torch.eye(4)).save(tmp_path / "static")
    with refuses(DataError, "models.static_cannot_get_head", setting="reader.init.weights"):
        made(tmp_path / "static")
    with refuses(DataError, "models.unreadable", fails="is not a reader"):
        load_reader(bert, "cpu")
