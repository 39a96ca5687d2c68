"""Errors as tests know them: by kind, code and values, so that their words may be mended."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from noisyir.base.errors import NoisyirError


@contextmanager
def refuses(kind: type[NoisyirError], code: str, /, **values: Any) -> Iterator[pytest.ExceptionInfo[NoisyirError]]:
    """Expect an error of this kind and code, with at least these values."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)
    assert {name: caught.value.values[name] for name in values} == values
