"""Bodies that are built once and held once."""

import asyncio
import gzip

from starlette.requests import Request
from starlette.responses import Response

from ballast.serving.cached_document import Document

BODY = b'{"nodes": [' + b", ".join(b'"node-%05d"' % number for number in range(5_000)) + b"]}"


def made(built: list[int]) -> Document:
    def build() -> bytes:
        built.append(1)
        return BODY

    return Document(build)


def asked(document: Document, coding: str) -> Response:
    scope = {"type": "http", "headers": [(b"accept-encoding", coding.encode())]}
    return asyncio.run(document.response(Request(scope)))


def kept(document: Document) -> int:
    return sum(len(value) for value in vars(document).values() if isinstance(value, bytes))


def test_who_takes_gzip_alone_leaves_no_plain_body_behind() -> None:
    built = list[int]()
    document = made(built)
    for _ in range(3):
        assert gzip.decompress(bytes(asked(document, "gzip").body)) == BODY
    assert kept(document) == len(document.packed()) < len(BODY) / 4
    assert built == [1]


def test_plain_and_gzip_are_one_body_with_one_tag_in_any_order() -> None:
    for order in (("gzip", "identity", "gzip"), ("identity", "gzip", "identity")):
        built = list[int]()
        document = made(built)
        answers = [asked(document, coding) for coding in order]
        for coding, answer in zip(order, answers, strict=True):
            assert (gzip.decompress(bytes(answer.body)) if coding == "gzip" else answer.body) == BODY
        assert len({each.headers["etag"] for each in answers}) == 1
        assert built == [1]
        assert gzip.decompress(document.packed()) == document.plain() == BODY


def test_where_both_were_asked_for_the_next_has_both_at_hand() -> None:
    built = list[int]()
    first, second, third = made(built), made(built), made(built)
    for coding in ("gzip", "identity"):
        asked(first, coding)
    second.follow(first)
    assert kept(second) == len(BODY) + len(second.packed())
    asked(second, "gzip")
    third.follow(second)
    assert kept(third) == len(third.packed())
    assert built == [1, 1, 1]


def test_an_empty_body_is_one() -> None:
    document = Document(lambda: b"", "text/plain")
    assert (document.plain(), gzip.decompress(document.packed())) == (b"", b"")
