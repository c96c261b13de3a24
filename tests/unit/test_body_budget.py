"""Bodies of requests that arrive at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any, cast

import hypothesis
import pytest
from hypothesis import strategies as st
from starlette.requests import Request

from ballast.base.memory import BodiesInFlight, BodyBudget


class Chunks:
    """Stands for a request."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    async def stream(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


def request(*chunks: bytes) -> Request:
    return cast(Request, Chunks(*chunks))


async def _hold(budget: BodyBudget, bodies: Sequence[Sequence[bytes]]) -> list[Any]:
    found: list[Any] = []
    async with AsyncExitStack() as stack:
        for chunks in bodies:
            try:
                found.append(await stack.enter_async_context(budget.body(request(*chunks))))
            except BodiesInFlight:
                found.append(None)
            assert budget.held == sum(len(body) for body in found if body is not None)
    assert budget.held == 0
    return found


def hold(budget: BodyBudget, *bodies: Sequence[bytes]) -> list[Any]:
    return asyncio.run(_hold(budget, bodies))


def test_large_bodies_share_one_limit_and_small_ones_have_their_own() -> None:
    budget = BodyBudget(limit=100, small=10, reserved=20)
    assert hold(budget, [b"x" * 60], [b"x" * 60], [b"s" * 10], [b"s" * 10], [b"s" * 10], [b"s" * 40]) == [
        b"x" * 60,
        None,
        b"s" * 10,
        b"s" * 10,
        b"s" * 10,
        None,
    ]


def test_a_body_that_grows_leaves_the_share_of_the_small_ones() -> None:
    budget = BodyBudget(limit=100, small=10, reserved=10)
    assert hold(budget, [b"x" * 9, b"x" * 9], [b"s" * 10]) == [b"x" * 18, b"s" * 10]


@hypothesis.given(st.lists(st.lists(st.integers(0, 30), max_size=5), max_size=12))
def test_no_more_is_held_than_allowed(bodies: list[list[int]]) -> None:
    budget = BodyBudget(limit=60, small=10, reserved=20)
    held = hold(budget, *[[b"x" * size for size in chunks] for chunks in bodies])
    assert sum(len(body) for body in held if body) <= 80
    for body, chunks in zip(held, bodies, strict=True):
        assert body is None or len(body) == sum(chunks)


def test_a_request_that_breaks_off_gives_its_bytes_back() -> None:
    class Broken(Chunks):
        async def stream(self) -> AsyncIterator[bytes]:
            yield b"x" * 50
            raise ConnectionResetError

    async def broken(budget: BodyBudget) -> None:
        with pytest.raises(ConnectionResetError):
            async with budget.body(cast(Request, Broken())):
                raise AssertionError

    budget = BodyBudget(limit=60, small=10, reserved=20)
    asyncio.run(broken(budget))
    assert budget.held == 0


def test_unfinished_small_bodies_give_way_oldest_first() -> None:
    async def run() -> None:
        budget, forever, arrived = BodyBudget(limit=10, small=10, reserved=20), asyncio.Event(), []

        class Unfinished(Chunks):
            async def stream(self) -> AsyncIterator[bytes]:
                yield b"x" * 10
                arrived.append(self)
                await forever.wait()
                yield b"x"

        async def slow() -> str:
            try:
                async with budget.body(cast(Request, Unfinished())):
                    return "complete"
            except BodiesInFlight:
                return "dropped"

        waiting = [asyncio.create_task(slow()) for _ in range(3)]
        while len(arrived) < 3:
            await asyncio.sleep(0)
        assert budget.held == 30
        async with budget.body(request(b"genuine")) as body:
            assert body == b"genuine"
        forever.set()
        assert "dropped" in await asyncio.gather(*waiting)
        assert budget.held == 0

    asyncio.run(run())
