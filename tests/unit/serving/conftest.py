"""One world and one server for the tests of calls, which change nothing of either."""

import pytest

from noisyir.engine.store import Store
from tests.served import make_world, options, random_encoder, serving


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A store with an experiment, a symmetric static model under cosine."""
    home = tmp_path_factory.mktemp("served")
    return make_world(Store(home / "store", home=home), random_encoder())


@pytest.fixture(scope="session")
def served(world):
    """The address of its server."""
    with serving(options(world)) as address:
        yield address
