"""A sentence from a build's notes: how most stages tell their story."""

from collections.abc import Iterator, Mapping

from noisyir.engine.builds import Meta
from noisyir.engine.store import Store


def told(note: str, text: str, meta: Meta, store: Store) -> Iterator[str]:
    """The text, filled with the note, where the build has it: its entries by name, or the one value it is."""
    if note in meta.notes:
        found = meta.notes[note]
        yield text.format(**found) if isinstance(found, Mapping) else text.format(found)
