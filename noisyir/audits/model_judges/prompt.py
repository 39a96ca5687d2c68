"""The packaged prompts: one text a version, with a fence that no document can close."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_CUT = "\n---\n"  # between instructions and texts


@dataclass(frozen=True)
class Prompt:
    """A prompt's two parts and the digest of its file, which is in the key of each answer."""

    version: str
    digest: str
    told: str
    given: str

    def size(self, query: str, document: str) -> int:
        """Bytes that a judge reads of a question."""
        return sum(len(message["content"].encode("utf-8", "replace")) for message in self.messages(query, document))

    def messages(self, query: str, document: str) -> list[dict[str, str]]:
        """The question as messages of the chat protocol.

        The fence bears a digest of both texts: to close its own fence, a document would have to contain that digest.
        """
        mark = digest_of(self.digest, query, document)[:16]
        given = self.given.format(mark=mark, query=query, document=document)
        return [{"role": "system", "content": self.told.format(mark=mark)}, {"role": "user", "content": given}]


@cache
def load_prompt(version: str) -> Prompt:
    """The packaged prompt of this version."""
    text = files("noisyir.audits.model_judges").joinpath(f"prompt_{version}.txt").read_text(encoding="utf-8")
    told, _, given = text.partition(_CUT)
    return Prompt(version, hashlib.sha256(text.encode()).hexdigest(), told, given)


def digest_of(*parts: str) -> str:
    """A digest of several texts that no other division into texts shares."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()
