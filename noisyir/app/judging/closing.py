"""What a session came to, in words for a terminal and for the page's end."""

from noisyir.app.judging.learning import Known
from noisyir.app.judging.session import JudgingSession
from noisyir.noise.guarantee import judgements_needed

_HALF = 0.5  # of the pairs


def summary(session: JudgingSession, command: str, wrong: float | None = None) -> str:
    """The file, what is known now, and the command that uses it.

    command: audits the same pairs by the answers.  wrong: say how many pairs to keep so that at most this share of them
    is wrong.
    """
    own = session.journal.latest().get(session.judge, {})
    if not own:
        return f"{session.judge} judged nothing."
    known = session.learnt.known
    lines = [f"{len(own):,} pairs judged by {session.judge}: {session.journal.path}", *told(known)]
    if wrong is not None:
        lines.append(told_guarantee(known, wrong, len(session.pairs.ids)))
    return "\n".join([*lines, "", "To use the answers, with --apply to clean the pairs by them:", f"  {command}"])


def told(known: Known) -> list[str]:
    """What judgements tell, a line each."""
    lines = []
    if known.rate:
        lines.append(f"wrong pairs    {known.rate} at 95 %, by {known.sampled:,} pairs drawn at random")
    if known.narrower:
        lines.append(f"               {known.narrower}")
    if known.unlearnt:
        lines.append(f"order          AUROC {_plain(known.unlearnt)} without judgements")
    if known.order:
        lines.append(f"               AUROC {_plain(known.order)} as the judgements teach it, cross-validated")
    if known.advice:
        lines.append(f"               {known.advice}")
    return lines


def told_guarantee(known: Known, wrong: float, pairs: int) -> str:
    """How many pairs to keep so that at most the share `wrong` of them is wrong."""
    at = f"with {known.confidence:.0%} confidence"
    if not known.guarantee:
        return f"guarantee      nothing can be said {at}: judge more pairs that are drawn at random (--judge)"
    if kept := known.keeping(wrong):
        return (
            f"guarantee      keep the {kept.pairs:,} of {pairs:,} pairs with the lowest score: "
            f"at most {kept.bound:.1%} of them are wrong, {at}"
        )
    best = min(known.guarantee, key=lambda kept: kept.bound)
    needed = judgements_needed(wrong, _HALF, known.confidence)
    return (
        f"guarantee      no part of the pairs is known to have at most {wrong:.1%} wrong {at}; the least known: "
        f"at most {best.bound:.1%} of the {best.pairs:,} with the lowest score. To keep half of all takes {needed:,} "
        "pairs drawn at random and judged, none of those kept being wrong"
    )


def _plain(interval: tuple[float, float, float]) -> str:
    value, low, high = interval
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
