"""The servers, once for all tests of this folder, and runs on a tiny collection."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import Site
from tests.tiny import SETTINGS, tiny_data

_seeds = itertools.count(100)  # every test has a seed of its own, so that none finds another's artifacts


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """What `make up` starts, in a folder that Postgres can enter, who may be another user; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="noisyir-e2e-") as name:
        Path(name).chmod(0o755)
        site = Site(Path(name))
        tiny_data(site.home / "beir")
        try:
            site.up()
            yield site
        finally:
            site.down()


@pytest.fixture
def parameters(site: Site) -> Callable[..., dict[str, Any]]:
    """`parameters(*overrides, **more)` of a flow run on the tiny collection, one method, GPU stages to their pool."""
    seed = next(_seeds)

    def make(*overrides: str, **more: Any) -> dict[str, Any]:
        given = [*SETTINGS, f"data.path={site.home / 'beir'}", "methods=[dpr]", f"seed={seed}", *overrides]
        return {"experiment": "demo", "overrides": given, "pools": {"elsewhere": ["gpu"]}, **more}

    return make


@pytest.fixture
def beir(site: Site) -> Path:
    """The collection's folder."""
    return site.home / "beir"
