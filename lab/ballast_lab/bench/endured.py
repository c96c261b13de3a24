"""What a daemon endures for minutes: huge error texts of its source, and garbage at each of its ports."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from ballast_lab.bench.rows import Row
from ballast_lab.harness.waiting import eventually
from ballast_lab.hostile.source import MODES, source
from ballast_lab.hostile.victim import Victim, cluster, victim

ANSWERS, MINUTES = 1_000, 10.0
TEXT = 40
"""MB of an error text."""

CLIENTS, SETTLING = 3, 20.0
QUICK = {"answers": 50, "minutes": 0.5}
SECRET = "0123456789abcdef0123456789abcdef"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_HOST = b"host: x\r\n"
GARBAGE = (
    b"\x16\x03\x01\r\n\r\n",
    b"GET /livez HTTP/1.1\r\n" + _HOST + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /\r\n",
    b"GET /api/v1/status HTTP/1.1\r\n" + _HOST + _HOST + b"\r\n",
    b"POST /scheduler/prioritize HTTP/1.1\r\n" + _HOST + b"content-length: -1\r\n\r\n",
    b"POST /scheduler/prioritize HTTP/1.1\r\n" + _HOST + b"content-length: 3\r\n\r\n{{{",
    b"POST /scheduler/filter HTTP/1.1\r\n" + _HOST + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1_500,
    b"GET /%2e%2e/%00 HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET /watcher?host=\x1b[31m HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2_000,
    b"DELETE /api/v1/nodes HTTP/1.1\r\n" + _HOST + b"\r\n",
)


def measure(answers: int = ANSWERS, minutes: float = MINUTES) -> list[Row]:
    """Each with a daemon of its own beside an embedded cluster."""
    with tempfile.TemporaryDirectory(prefix="ballast-endured-") as folder, cluster(Path(folder)) as environment:
        return [_texts(environment, Path(folder), answers), _garbage(environment, Path(folder), minutes)]


def _texts(environment: Mapping[str, str], folder: Path, answers: int) -> Row:
    text = f"\x1b]8;;http://x\x07click\nFAKE LINE\r\u202e{SECRET} ".encode("unicode_escape").replace(b"\\x", b"\\u00")
    whole = b'{"status":"error","errorType":"bad_data","error":"%b"}' % (text + b"A" * (TEXT * 1_000_000))
    MODES["a long error text"] = lambda one, _: one.whole(whole)
    token = folder / "token"
    token.write_text(SECRET)
    given = {
        "BALLAST_TELEMETRY__INTERVAL": "1s",
        "BALLAST_LOG__FORMAT": "text",
        "BALLAST_PROMETHEUS__TOKEN_FILE": str(token),
    }
    with source(environment["BALLAST_PROMETHEUS__URL"]) as (server, url):
        named = {**environment, "BALLAST_PROMETHEUS__URL": url}
        with victim(folder, named, **given) as attacked:
            _settle(attacked)
            _, before = attacked.resident()
            server.mode = "a long error text"
            sent = server.sent
            eventually("all are sent", lambda: server.sent >= sent + answers, every=0.5)
            asked = {path: attacked.ask("GET", f"/api/v1/{path}")[1] for path in ("status", "cycles", "config")}
            time.sleep(2.0)
            _, during = attacked.resident()
            server.mode = ""
            _settle(attacked)
            _, after = attacked.resident()
            log = attacked.log.read_text()
        count = server.sent - sent
    longest = max(map(len, log.splitlines()))
    told = [log, *(body.decode() for body in asked.values())]
    clean = not any(_CONTROL.search(each) or "\nFAKE LINE" in each or SECRET in each for each in told)
    grown = [(size - before) / 2**20 for size in (during, after)]
    met = max(grown) <= 16 and longest <= 2_048 + 512 and clean
    return {
        "what": f"error texts of {TEXT} MB with escape codes, a false line and the token that was sent, as answers of "
        "Prometheus",
        "at": f"{count:,} answers to a daemon of 200 nodes, read in its log, status, cycles and config",
        "reach": "RSS + ≤ 16 MB; texts ≤ 2 KiB, no control character, no secret",
        "measured": f"RSS +{grown[0]:.0f} MiB with the last of them, {grown[1]:+.0f} MiB {SETTLING:.0f} s later; the "
        f"longest line of {len(log) / 1e6:.2f} MB of log has {longest:,} characters; status, cycles and config "
        f"{', '.join(f'{len(body) / 1000:.0f} kB' for body in asked.values())}; {'clean' if clean else 'not clean'}",
        "verdict": "met" if met else "not met",
    }


def _garbage(environment: Mapping[str, str], folder: Path, minutes: float) -> Row:
    sent = [0] * CLIENTS
    over = threading.Event()
    with victim(folder, environment) as attacked:
        _settle(attacked)
        begins = len(attacked.log.read_text().splitlines())

        def throw(number: int) -> None:
            dice = random.Random(number)
            while not over.is_set():
                port = dice.choice((attacked.port, attacked.health))
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as client:
                    client.sendall(dice.choice((*GARBAGE, dice.randbytes(300))))
                    client.settimeout(0.2)
                    client.recv(4096)
                sent[number] += 1

        clients = [threading.Thread(target=throw, args=(number,)) for number in range(CLIENTS)]
        with attacked.watched() as seen:
            for client in clients:
                client.start()
            time.sleep(60.0 * minutes)
            over.set()
            for client in clients:
                client.join()
        lines = attacked.log.read_text().splitlines()[begins:]
    own = sum('"cycle"' in line or "ballast.cycle" in line for line in lines)
    livez = sorted(seen.livez)
    met = len(lines) - own <= 100 and livez[-1] <= 250 and not seen.failed
    return {
        "what": f"{CLIENTS} clients that send garbage to both ports",
        "at": f"{minutes:g} minutes, {sum(sent):,} requests of {len(GARBAGE) + 1} kinds, 200 nodes",
        "reach": "≤ 100 log lines, `/livez` ≤ 250 ms",
        "measured": f"{len(lines) - own} lines beside those of {own} cycles; `/livez` at most {livez[-1]:.0f} ms, "
        f"p99 {livez[int(0.99 * len(livez))]:.0f}; prioritize p99 {seen.p99:.0f} ms; {len(seen.failed)} unanswered",
        "verdict": "met" if met else "not met",
    }


def _settle(attacked: Victim) -> None:
    eventually("nodes are known", lambda: len(set(attacked.scores().values())) > 1, every=0.2)
    time.sleep(SETTLING)


if __name__ == "__main__":
    for row in measure(**QUICK):  # type: ignore[arg-type]
        print(row)
