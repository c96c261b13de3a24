"""What 15,000 nodes cost the daemon, beside a Prometheus that answers at once."""

from __future__ import annotations

import gc
import json
import multiprocessing
import multiprocessing.connection
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import psutil

from ballast.cli.run import tidy
from ballast_lab.bench.pipeline import _daemon, _read, _telemetry
from ballast_lab.bench.processes import Shape, Simulated, apart, simulated
from ballast_lab.bench.rows import Row, at_most

QUICK = {"nodes": 2_000}
INTERVAL = 30.0
CYCLES = 40
FREQUENCIES = 997
_spawn = multiprocessing.get_context("spawn")


def measure(nodes: int = 15_000) -> list[Row]:
    """CPU milliseconds of a cycle and megabytes of the daemon with the settings of a default install."""
    with simulated(nodes, Shape(pods=0, realistic=False)) as cluster, prometheus(nodes) as url:
        found = apart(_cycles, cluster, url)
    at = f"{nodes:,} nodes, the default: cpu and memory, 15m, 10m and 5m at 30 s"
    return [
        {
            "what": "a cycle, from its queries to the snapshot served",
            "at": at,
            "reach": "≤ 250 ms CPU",
            "measured": f"{found['least']:.0f} ms CPU, the least of {CYCLES} (median {found['cycle']:.0f}, which other "
            f"programs lengthen); the first, which reads the windows back, {found['first'] / 1000:.1f} s",
            "verdict": at_most(found["least"], 250),
        },
        {
            "what": "resident memory of the daemon",
            "at": f"{at}; `/watcher`, `/metrics`, `/api/v1/nodes` read after each of the last {CYCLES // 2} cycles",
            "reach": "≤ 250 MB",
            "measured": f"{found['resident']:.0f} MB after {CYCLES} cycles and what the daemon does each minute, "
            f"{found['most']:.0f} just before that; {found['unread']:.0f} before anybody read",
            "verdict": at_most(found["resident"], 250),
        },
    ]


def _cycles(cluster: Simulated, url: str) -> dict[str, float]:
    more = {
        "BALLAST_PROMETHEUS__URL": url,
        "BALLAST_TELEMETRY__INTERVAL": f"{INTERVAL:g}s",
        "BALLAST_TELEMETRY__RESOURCES": "cpu,memory",
    }
    daemon, clock = _daemon(cluster, "15m,10m,5m", **more)
    begun = time.process_time()
    _telemetry(daemon)
    first = 1000 * (time.process_time() - begun)
    gc.freeze()
    spent, unread, most = [], 0.0, 0.0
    for cycle in range(CYCLES):
        clock.advance(INTERVAL)
        begun = time.process_time()
        _telemetry(daemon)
        spent.append(1000 * (time.process_time() - begun))
        if cycle == CYCLES // 2:
            unread = _resident()
        if cycle >= CYCLES // 2:
            _read(daemon.port)
        if cycle % 2:
            most = max(most, _resident())
            tidy()
    resident = _resident()
    daemon.stop()
    cycle = statistics.median(spent)
    return {"cycle": cycle, "least": min(spent), "first": first, "resident": resident, "most": most, "unread": unread}


def _resident() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


@contextmanager
def prometheus(nodes: int) -> Iterator[str]:
    """The address of a server in another process that has cpu and memory of nodes 10.0.0.0 and following."""
    ours, theirs = _spawn.Pipe()
    process = _spawn.Process(target=_serve, args=(theirs, nodes))
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(parent: multiprocessing.connection.Connection, nodes: int) -> None:
    from ballast_lab.simulator import World

    hosts = [f'{{"metric":{{"instance":"{address}:9100"}},"value'.encode() for address in World(nodes).addresses]
    # As low as what metrics-server says of nodes without pods: else the nodes would be disputed.
    ratios = [b"%.17g" % (0.02 + 0.12 * (row % FREQUENCIES) / FREQUENCIES) for row in range(nodes)]
    loads = b",".join(b'%s":[@,"%s"]}' % each for each in zip(hosts, ratios, strict=True))
    times = b",".join(b'%s":[@,"~"]}' % host for host in hosts)

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["content-length"])).decode()
            self._answer({name: found[-1] for name, found in parse_qs(form).items()})

        def do_GET(self) -> None:
            self._answer({name: found[-1] for name, found in parse_qs(urlsplit(self.path).query).items()})

        def _answer(self, asked: dict[str, str]) -> None:
            fresh = "timestamp(" in asked.get("query", "")
            if "query_range" in self.path:
                start, end, step = (float(asked[name].rstrip("s")) for name in ("start", "end", "step"))
                at = [start + step * number for number in range(int((end - start) / step) + 1)]
                points = json.dumps([[when, f"{when - 5 if fresh else 0.02 + when % 600 / 5000}"] for when in at])
                result = b",".join(b'%ss":%s}' % (host, points.encode()) for host in hosts)
                kind = b"matrix"
            else:
                when = float(asked.get("time", time.time()))
                result, kind = times if fresh else loads, b"vector"
                result = result.replace(b"@", b"%.3f" % when).replace(b"~", b"%.3f" % (when - 5))
            body = b'{"status":"success","data":{"resultType":"%s","result":[%s]}}' % (kind, result)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        parent.send(f"http://127.0.0.1:{server.server_port}")
        server.serve_forever()


if __name__ == "__main__":
    for row in measure():
        print(row)
