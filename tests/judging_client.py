"""A judge without a browser: answers the pairs of `noisyir audit --judge` over the calls of its page."""

import re
import time
from collections.abc import Iterable
from pathlib import Path

import httpx

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S+/")


def address_in(output: Path, seconds: float = 120) -> str:
    """The page's address, once the command has printed it there."""
    end = time.monotonic() + seconds
    while (found := _ADDRESS.search(output.read_text(errors="replace"))) is None:
        if time.monotonic() > end:
            raise TimeoutError("no page is served")
        time.sleep(0.1)
    return found.group()


def answer_pairs(address: str, verdicts: Iterable[str], *, finish: bool = True) -> int:
    """Answer a pair with each verdict, and finish the session; the number of answers that were saved."""
    saved = 0
    with httpx.Client(base_url=address, timeout=60) as page:
        for verdict in verdicts:
            (shown, *_) = page.get("pairs?count=1").raise_for_status().json()["pairs"]
            pair = {"query_id": shown["query_id"], "doc_id": shown["document"]["doc_id"]}
            page.post("answer", json={**pair, "verdict": verdict}).raise_for_status()
            saved += 1
        if finish:
            page.post("finish", json={}).raise_for_status()
    return saved
