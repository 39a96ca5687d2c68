"""What a run found out about its wrong labels, and what was done about them before the model learned, in sentences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from noisyir.engine.builds import Meta, Ref
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.pipelines.experiment import Experiment


def noise_story(exp: Experiment, store: Store, model: Ref, results: Sequence[Ref]) -> list[str]:
    """One sentence a fact: noise put in, noise found, noise handled; found by the run, or behind the model itself."""
    behind = lineage(store, [model])
    used = {(meta.key, meta.build) for meta in behind}
    beside = [meta for meta in lineage(store, results) if (meta.key, meta.build) not in used]
    found = [sentence for meta in behind for sentence in _sentences(store, meta)]
    seen = [
        f"{sentence} (seen by the run, not used by this model)" for m in beside for sentence in _sentences(store, m)
    ]
    return [_put_in(exp, behind), *dict.fromkeys([*found, *seen])] if found or seen else [_put_in(exp, behind), _NONE]


_NONE = "The run looked for no wrong labels, and nothing was done about them."


def _put_in(exp: Experiment, behind: Sequence[Meta]) -> str:
    if exp.task == "reader":
        return f"Labels are distant: the passages of {exp.reader.labels} that hold an answer."
    if exp.noise.rate:
        return f"{exp.noise.rate:.0%} of the training pairs were given a wrong document ({exp.noise.mechanism})."
    return "Only what the pairs came with: none was put in."


def _sentences(store: Store, meta: Meta) -> Iterator[str]:
    """What one build says of noise."""
    if meta.stage == "train_npc":
        yield from _corrected(store, meta)
    elif meta.stage in _SAYS:
        note, says = _SAYS[meta.stage]
        if note in meta.notes:
            yield says(meta.notes[note])


def _corrected(store: Store, meta: Meta) -> Iterator[str]:
    """Npc's last detection, from its flags."""
    flags = read_parts(store.fs, store.parts(meta.ref("noise_flags")), ("epoch", "is_clean"))
    if not flags.num_rows:
        return
    last = pc.max(flags["epoch"]).as_py()
    clean = flags.filter(pc.equal(flags["epoch"], last))["is_clean"].to_pylist()
    wrong = f"{clean.count(False):,} of {len(clean):,}"
    yield f"Noisy pair correction: at its last detection, after epoch {last}, it held {wrong} pairs for wrong."


def _detected(note: Mapping[str, Any]) -> str:
    found = note[max(note, key=int)]
    flagged = round(found["flagged"] * found["pairs"])
    interval = f" [{found['rate_low']:.1%}, {found['rate_high']:.1%}]" if "rate_low" in found else ""
    return (
        f"Detection: {found['rate']:.1%}{interval} of {found['pairs']:,} pairs are estimated to be wrong; "
        f"{flagged:,} were flagged."
    )


def _mined(note: Mapping[str, Any]) -> str:
    removed = {name: count for name, count in note["removed"].items() if count}
    by = ", ".join(f"{name} {count:,}" for name, count in removed.items()) or "none"
    return f"Hard negatives: of {note['candidates']:,} candidates were removed: {by}."


def _judged(judge: str) -> Callable[[Mapping[str, Any]], str]:
    def says(note: Mapping[str, Any]) -> str:
        return f"{judge}: {note['dropped']:,} of {note['judged']:,} candidate negatives were dropped as relevant."

    return says


def _repaired(note: Mapping[str, Any]) -> str:
    return f"Repair: {note['relabelled']:,} pairs got another document; {note['flagged']:,} stay flagged."


def _sieved(note: Mapping[str, Any]) -> str:
    return (
        f"Sieve: {note['sieved_out']:,} of {note['judged']:,} candidate negatives were sieved out as likely positives."
    )


def _learned(note: Mapping[str, Any]) -> str:
    of = f"{note['instances']:,} of {note['labelled']:,} labelled spans, of {note['questions']:,} questions"
    return f"The reader learned from {of}."


# by stage: the note that is told, and how
_SAYS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "detect": ("detection", _detected),
    "train_co_teaching": (
        "noise_rate",
        lambda rate: f"Co-teaching left out up to {rate:.1%} of the pairs, of the largest losses.",
    ),
    "repair": ("repair", _repaired),
    "sieve": ("sieve", _sieved),
    "cross_judge": ("cross_judge", _judged("A cross-encoder")),
    "ranker_judge": ("ranker_judge", _judged("The trained ranker")),
    "mine": ("negatives", _mined),
    "pseudo_label": ("pseudo_pairs", lambda note: f"Pseudo-labels: {note['made']:,} pairs were added."),
    "train_reader": ("instances", _learned),
}
