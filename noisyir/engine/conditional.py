"""Files of an object store that are written only if they are as the writer believes: what leases are made of.

S3's protocol has this: PUT with If-None-Match makes a file once, with If-Match it replaces what was read and nothing
newer.  https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

_REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "409", "412")


class Found(NamedTuple):
    """A file as it was read.  tag: of these bytes and no others; age: seconds since it was written, by its server."""

    body: bytes
    tag: str
    age: float


class ConditionalFiles:
    """Files in an S3 file system of fsspec; no two `body` of one file may ever be equal, for a tag is of the bytes."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def read(self, path: str) -> Found | None:
        """The file; None where there is none."""
        from fsspec.asyn import sync

        bucket, key, _ = self._fs.split_path(path)

        async def get() -> tuple[bytes, Any]:
            answer = await self._fs._call_s3("get_object", Bucket=bucket, Key=key)
            async with answer["Body"] as stream:
                return await stream.read(), answer

        try:
            body, answer = sync(self._fs.loop, get)
        except FileNotFoundError:
            return None
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        now = parsedate_to_datetime(date) if date else datetime.now(UTC)
        return Found(body, answer["ETag"], (now - answer["LastModified"]).total_seconds())

    def create(self, path: str, body: bytes) -> str | None:
        """Write a file that is not there; its tag, or None where it is."""
        return self._put(path, body, IfNoneMatch="*")

    def replace(self, path: str, body: bytes, tag: str) -> str | None:
        """Write the file in place of the one with this tag; the new tag, or None where it has another now."""
        return self._put(path, body, IfMatch=tag)

    def are_kept_apart(self, path: str) -> bool:
        """Whether the server heeds the conditions, tried on a file of that name; older ones ignore them in silence."""
        self.create(path, b"tried")
        return self.create(path, b"tried again") is None and self.replace(path, b"tried again", '"0"') is None

    def _put(self, path: str, body: bytes, **condition: str) -> str | None:
        bucket, key, _ = self._fs.split_path(path)
        try:
            tag: str = self._fs.call_s3("put_object", Bucket=bucket, Key=key, Body=body, **condition)["ETag"]
        except OSError as error:
            if not _refused(error):
                raise
            # An answer may have been lost, and the file be refused for what the first attempt has written.
            return found.tag if (found := self.read(path)) and found.body == body else None
        return tag


def conditional_files(fs: Any) -> ConditionalFiles | None:
    """Conditional writes of a file system; None where they are not known."""
    return ConditionalFiles(fs) if "s3" in fs.protocol else None


def _refused(error: OSError) -> bool:
    about = getattr(error.__cause__, "response", None) or {}
    return isinstance(error, FileExistsError) or about.get("Error", {}).get("Code") in _REFUSED
