"""Public data with published results: what other projects assert of themselves must hold here."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def needs(*folders: Path) -> pytest.MarkDecorator:
    """Skip where this data is absent."""
    lacking = [str(folder) for folder in folders if not folder.exists()]
    return pytest.mark.skipif(bool(lacking), reason=f"needs {', '.join(lacking)}")
