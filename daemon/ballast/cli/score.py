"""`ballast score`: the score of a strategy for every node of a cluster file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from ballast.base import log
from ballast.base.errors import NOT_JSON, BallastError, UsageError
from ballast.cli import files
from ballast.cli.metrics_file import fleet, metrics
from ballast.cli.output import Output, OutputOption
from ballast.scoring.fleet import Fleet
from ballast.scoring.scores import Scores
from ballast.scoring.strategy import NAMES, strategy


def score(
    cluster: Annotated[
        Path | None, typer.Option(help="Output of `kubectl get nodes,pods -A -o json`.", show_default=False)
    ] = None,
    metrics_file: Annotated[
        Path | None, typer.Option("--metrics", help="A load-watcher document, as GET /watcher returns it.")
    ] = None,
    pod: Annotated[Path | None, typer.Option(help="The pod to place: a JSON or YAML file.")] = None,
    name: Annotated[str, typer.Option("--strategy", help=f"One of: {', '.join(NAMES)}.")] = "load-variation",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A key of the strategy. VALUE is JSON or a bare word. Can be repeated."
        ),
    ] = None,
    batch: Annotated[
        Path | None,
        typer.Option(help="A file of JSON lines with cluster, metrics, pod, strategy and set. Prints JSON lines."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Score every node for a pod, offline."""
    log.configure("warning")
    if batch is not None:
        if cluster or metrics_file or pod or settings:
            raise UsageError(
                "--batch cannot be combined: each line has its own cluster, metrics, pod, strategy and set."
            )
        _batch(batch)
        return
    if cluster is None or pod is None:
        raise UsageError("Give --cluster and --pod (and --metrics for strategies that use load), or --batch.")
    keys = dict(map(key_and_value, settings or ()))
    nodes_and_pods = files.cluster(files.read_document(cluster, "--cluster"), f"--cluster {cluster}")
    measured = files.read_document(metrics_file, "--metrics") if metrics_file else None
    placed = files.pod(files.read_document(pod, "--pod"), f"--pod {pod}")
    result = _result(name, keys, fleet(nodes_and_pods, metrics(measured, f"--metrics {metrics_file}")), placed)
    if output is Output.JSON:
        typer.echo(json.dumps(result, indent=2, allow_nan=False))
    else:
        _print(result)
        if measured is None and result["unknown"]:
            typer.echo(f"{name} uses load. Give it with --metrics FILE.", err=True)


def _batch(path: Path) -> None:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"--batch {path}: {error.strerror}.") from None
    for line in lines:
        if line.strip():
            try:
                answer = _case(line)
            except BallastError as error:
                answer = {"error": str(error)}
            typer.echo(json.dumps(answer, allow_nan=False))


def _case(line: bytes) -> dict[str, Any]:
    try:
        case = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"The line is not JSON: {error}.") from None
    if not isinstance(case, dict):
        raise UsageError("The line is not a JSON object.")
    unknown = sorted(set(case) - {"cluster", "metrics", "pod", "strategy", "set"})
    if unknown:
        raise UsageError(f"{unknown[0]} is unknown; a line has cluster, metrics, pod, strategy and set.")
    keys = case.get("set") or {}
    if not isinstance(keys, dict):
        raise UsageError("set must be an object of keys.")
    scored = fleet(files.cluster(case.get("cluster")), metrics(case.get("metrics")))
    return _result(case.get("strategy", "load-variation"), keys, scored, files.pod(case.get("pod")))


def _result(name: object, keys: Mapping[str, object], scored: Fleet, placed: Any) -> dict[str, Any]:
    scores = strategy(str(name), _with_policy(keys)).score(scored, placed)
    if not isinstance(scores, Scores):
        raise UsageError(f"The strategy {name} gave no ballast.scoring.scores.Scores, but {scores!r}.")
    document = scores.document(str(name), [node.name for node in scored.nodes])
    result: dict[str, Any] = msgspec.to_builtins(document)
    return result


def _with_policy(keys: Mapping[str, object]) -> Mapping[str, object]:
    """Replaces a policy that is a file name by the content of the file."""
    policy = keys.get("policy")
    if not isinstance(policy, str):
        return keys
    return {**keys, "policy": files.read_document(Path(policy), "policy")}


def key_and_value(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {text}: give KEY=VALUE.")
    try:
        return key.strip(), msgspec.json.decode(value)
    except NOT_JSON:
        return key.strip(), value


def _print(result: Mapping[str, Any]) -> None:
    terms = list(next(iter(result["terms"].values()), {}))
    table = Table(box=None, pad_edge=False)
    table.add_column("NODE")
    for column in ("SCORE", "RAW", *(term.upper() for term in terms)):
        table.add_column(column, justify="right")
    unknown = set(result["unknown"])
    for node, points in sorted(result["scores"].items(), key=lambda each: (-each[1], each[0])):
        cells = [result["raw"][node], *result["terms"][node].values()]
        table.add_row(node, f"{points}{' unknown' if node in unknown else ''}", *map(_cell, cells))
    Console(soft_wrap=True).print(table)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
