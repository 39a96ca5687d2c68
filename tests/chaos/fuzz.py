"""Made-up bytes for every reader of outside bytes: each ends well or in one of noisyir's own errors, and soon.

A trial is a batch of examples for one reader: damaged copies of sound input and of the finds of the past, and values of
the right shape with odd parts.  A find belongs into `corpus/READER/`, or into `finds` where code tells it shorter; each
batch reads them first.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from noisyir.audits.judging.journal import Journal
from noisyir.audits.judging.server import Access, judging_app
from noisyir.audits.model_judges.answer import in_words, usage_of, yes_or_no
from noisyir.audits.model_judges.kept_answers import KeptAnswers
from noisyir.base.errors import NoisyirError
from noisyir.data.formats import Format
from noisyir.data.importing import take_in
from noisyir.data.recognise import recognise
from noisyir.detection.judgements import given_judgements
from noisyir.methods import experiments
from tests.chaos.case import Case

CORPUS = Path(__file__).parent / "corpus"
EXAMPLES = 300  # of one trial in a campaign
_CPU_SECONDS, _SECONDS = 5.0, 60  # that one example may take

Read = Callable[[bytes, Path], None]


class Reader(NamedTuple):
    """What reads the bytes, in an empty folder, and the bytes to try.  NoisyirError is a good end."""

    read: Read
    tries: st.SearchStrategy[bytes]


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many batches, the readers in turns."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        name = list(READERS)[number % len(READERS)]
        yield Case(f"{name} {seed + number}", batch(name, seed + number, EXAMPLES, folder / f"{number:05d}"))


def batch(name: str, seed: int, examples: int, folder: Path) -> str | None:
    """The corpus, then so many examples that follow from the seed; the smallest that is not fine, and why."""
    for find, data in finds(name):
        if fault := fault_of(READERS[name].read, data, folder / find):
            return f"{find}: {fault}"
    worst: list[str] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, database=None, deadline=None, derandomize=False, phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck), print_blob=False,
    )  # fmt: skip
    @hypothesis.given(READERS[name].tries)
    def tried(data: bytes) -> None:
        if fault := fault_of(READERS[name].read, data, folder / "example"):
            worst.append(f"{fault}, of {data[:400]!r}")
            raise AssertionError(fault)

    try:
        tried()
    except AssertionError:
        return worst[-1]
    return None


def finds(name: str) -> Iterator[tuple[str, bytes]]:
    """The finds of the past for one reader, by name; what code tells shorter is no file."""
    for path in sorted((CORPUS / name).glob("*")):
        yield path.name, path.read_bytes()
    if name == "formats":
        columns = 60_000
        yield "many-columns", f".csv\n{','.join(map(str, range(columns)))}\n{','.join('x' * columns)}\n".encode()
    if name == "judging.json":
        yield "brackets", b"[" * 100_000


def fault_of(read: Read, data: bytes, folder: Path) -> str | None:
    """What is not fine when these bytes are read; None where it ends well, or in an error of noisyir's own."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    try:
        with _ended_after(_SECONDS):
            read(data, folder)
    except NoisyirError as error:
        if "did not expect" in str(error) or "Traceback" in str(error):
            return f"told as unexpected: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    took = time.process_time() - began
    return f"took {took:.0f} s" if took > _CPU_SECONDS else None


@contextmanager
def _ended_after(seconds: int) -> Iterator[None]:
    """TimeoutError in the main thread where the block goes on for longer."""

    def end(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    others = signal.setitimer(signal.ITIMER_REAL, seconds)  # of who times the whole test
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *others)


# What is tried ---------------------------------------------------------------------------------------------------

_ODD = st.sampled_from([
    "", " ", "\ud800", "\x00", "\u202e", "\uff1d1+1", "=1+1", "../..", "a/b", "x" * 5000, "NaN", "1e999", "9" * 400,
    "9999-12-31T23:59:59.999999+00:00", "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00Z", "wrong", "model:x",
])  # fmt: skip
_TEXTS = _ODD | st.text(max_size=8)
_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS
_VALUES = st.recursive(_PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3))


def _objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """JSON objects with these fields, of which some are missing or are something else; perhaps several lines."""
    odd = {name: values | _VALUES for name, values in fields.items()}
    some = st.fixed_dictionaries({}, optional=odd) | st.fixed_dictionaries(fields)
    return st.lists(some, max_size=4).map(lambda rows: b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def _damaged(*sound: bytes) -> st.SearchStrategy[bytes]:
    """Copies of sound bytes that were cut, or had parts replaced, repeated or taken out."""

    def edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
        for place, length, new in edits:
            at = place % (len(data) + 1)
            data = data[:at] + new + data[at + length :]
        return data

    parts = st.binary(max_size=6) | st.sampled_from([b"\xff", b"\x00", b'"', b"\n", b"{", b"[" * 2000, b"&a ", b"*a "])
    edits = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 40), parts), min_size=1, max_size=4)
    return st.builds(edited, st.sampled_from(sound), edits) | st.binary(max_size=200)


def _named(*endings: str) -> st.SearchStrategy[bytes]:
    """A file's ending on the first line, and its bytes."""
    rows = b'{"query": "a", "document": "b", "weight": 0.5, "split": "train"}\n'
    sound = {
        ".jsonl": rows, ".json": b"[" + rows.strip() + b", " + rows.strip() + b"]", ".txt": rows,
        ".csv": b'query,document,weight\na,"b\nc",0.5\n', ".tsv": b"query\tdocument\na\tb\n1\t2\n",
        ".trec": b"q0 0 d1 1\n", "": b"<top>\n<num> 1\n<title> x\n</top>\n",
    }  # fmt: skip
    return st.sampled_from(endings).flatmap(
        lambda ending: _damaged(sound[ending]).map(lambda data: ending.encode() + b"\n" + data)
    )


_LINE = {
    "query_id": "q", "doc_id": "d", "verdict": "wrong", "judge": "ann", "draw": "random", "weight": 2.0,
    "replacement": None, "at": "2026-01-01T00:00:00.000000+00:00",
}  # fmt: skip
_JUDGED = {
    "query_id": st.just("q"), "doc_id": st.sampled_from("de"), "verdict": st.sampled_from(["wrong", "clean", None]),
    "judge": st.sampled_from(["ann", "bob"]), "weight": st.just(2.0), "replacement": st.none() | st.just("e"),
    "at": st.just("2026-01-01T00:00:00+00:00"),
}  # fmt: skip
_YAML = b"name: x\ndata: {kind: pairs, path: x.jsonl}\ntrain: &a {epochs: 1}\nmethods: [dpr, {kind: npc}]\n"
_REPLY = {"choices": [{"message": {"content": '{"verdict": "right", "reason": "x"}'}}], "usage": {"prompt_tokens": 1}}
_MESSAGES = st.lists(st.fixed_dictionaries({"message": st.fixed_dictionaries({"content": _VALUES})}) | _VALUES)


# What reads it ---------------------------------------------------------------------------------------------------


def _read_format(data: bytes, folder: Path) -> None:
    ending, _, content = data.partition(b"\n")
    path = folder / f"x{ending.decode('ascii', 'replace')[:8].strip('/')}"
    path.write_bytes(content)
    given = recognise(str(path))
    (folder / "out").mkdir(exist_ok=True)
    take_in(Format.of_kind(given["kind"]).parse(given).open(), folder / "out")


def _read_journal(data: bytes, folder: Path) -> None:
    path = folder / "judgements.jsonl"
    path.write_bytes(data)
    Journal(path).time()
    given_judgements([str(path)])


def _read_access(data: bytes, folder: Path) -> None:
    (folder / "judging.json").write_bytes(data)
    access = Access.of(folder)
    assert 0 <= access.port < 65536 and len(access.token) == 32


def _read_yaml(data: bytes, folder: Path) -> None:
    path = folder / "x.yaml"
    path.write_bytes(data)
    settings = experiments._read(str(path))
    experiments.from_settings(settings, [f"name={data.decode('utf-8', 'replace')[:200]}"])


def _read_reply(data: bytes, folder: Path) -> None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):  # as the conversation takes it
        return
    usage_of(body)
    for read in (in_words, yes_or_no):
        with suppress(ValueError):
            reason = read(body).reason
            assert reason.isprintable() or " " in reason


def _read_kept(data: bytes, folder: Path) -> None:
    (folder / "kept.sqlite").write_bytes(data)
    with KeptAnswers(folder / "kept.sqlite") as kept:
        kept.load({"k"})
        assert all(key == "k" for key in kept.found)


def _read_body(data: bytes, folder: Path) -> None:
    from starlette.testclient import TestClient

    from tests.unit.app.judging_world import session

    name, _, content = data.partition(b"\n")
    made = session(folder, start=False)
    client = TestClient(judging_app(made, "t", dict), base_url="http://127.0.0.1:1", raise_server_exceptions=False)
    call = name.decode("ascii", "replace") if name in (b"answer", b"undo", b"skip") else "answer"
    found = client.post(f"/t/{call}", content=content, headers={"content-type": "application/json"})
    (folder / "judgements.jsonl").unlink(missing_ok=True)
    assert found.status_code in (200, 400, 422), f"status {found.status_code}"


READERS = {
    "formats": Reader(_read_format, _named(".jsonl", ".json", ".txt", ".csv", ".tsv", ".trec", "")),
    "journal": Reader(_read_journal, _objects(**_JUDGED) | _damaged(json.dumps(_LINE).encode() + b"\n")),
    "judging.json": Reader(_read_access, _objects(port=st.integers(), token=_TEXTS) | _damaged(b'{"port": 1}')),
    "yaml": Reader(_read_yaml, _damaged(_YAML) | _VALUES.map(lambda value: json.dumps(value).encode())),
    "reply": Reader(_read_reply, _objects(choices=_MESSAGES, usage=_VALUES) | _damaged(json.dumps(_REPLY).encode())),
    "kept answers": Reader(_read_kept, _objects(key=st.just("k"), judge=_TEXTS, prompt=_TEXTS, verdict=_VALUES)),
    "body": Reader(
        _read_body,
        st.sampled_from([b"answer", b"undo", b"skip"]).flatmap(
            lambda name: _objects(query_id=st.just("q0000"), doc_id=_TEXTS, verdict=_TEXTS, replacement=_TEXTS)
            .map(lambda body: name + b"\n" + body)
        ),
    ),
}  # fmt: skip
