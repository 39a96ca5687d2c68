"""One tiny BERT for all tests of training."""

from pathlib import Path

import pytest

from tests.tiny_models import tiny_bert


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"))
