"""`ballast explain`: the verdict of every eviction check on a pod, why one was moved, or what a node's score is."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from ballast.base import log
from ballast.base.errors import BadFile, BallastError, UsageError
from ballast.base.text import duration
from ballast.cli.observing.remote import DAEMONS_TIMEOUT, NoAnswer, Remote, daemons_explanation, find
from ballast.cli.output import LiveOutput, LiveOutputOption
from ballast.cli.place import ContextOption, NamespaceOption, Place
from ballast.cli.planning.eviction_settings import offline_rules, settings_of
from ballast.cli.planning.gather import Origin, gather, variables
from ballast.cli.planning.plan import Cluster, Kubeconfig, Live, Metrics, PodMetrics, Set
from ballast.eviction.gate import Gate
from ballast.planners.explanation import explanation
from ballast.planning.from_settings import aims_of


def explain(
    pod: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE/POD|NODE", help="The pod, or a node of a running daemon.", show_default=False
        ),
    ],
    cluster: Cluster = None,
    metrics_file: Metrics = None,
    pod_metrics: PodMetrics = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask a running daemon. URL is the address of its page.")
    ] = None,
    settings: Set = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    """Show why a pod may or may not be evicted: all checks in order, with the numbers they use.

    Asks the daemon, which is found as by `ballast status` or given by --url, also why a pod was moved; a name without /
    is a node: what its score is made of. With files, or with --live or --kubeconfig, the checks are made here: those
    that need history (debounce, cooldown, rate) are assumed to pass, limits apply only if they are set.
    """
    log.configure("warning")
    own = any((cluster, metrics_file, pod_metrics, live, kubeconfig, settings))
    if url is not None and own:
        raise UsageError("--url asks a daemon, which has its own input and settings. Do not combine it with others.")
    space, slash, name = pod.partition("/")
    if not (pod if not slash else space and name and "/" not in name):
        raise UsageError(f"{pod}: give the pod as NAMESPACE/POD, such as shop/web-0, or the name of a node.")
    if not own:
        return _of_daemon(find(Place(url, namespace, None, context), DAEMONS_TIMEOUT), pod, output)
    if not slash:
        raise UsageError(
            f"{pod}: give the pod as NAMESPACE/POD, such as shop/web-0. A node is explained by a daemon: leave out "
            "other input."
        )
    origin = Origin(cluster, metrics_file, pod_metrics, live, kubeconfig, context, namespace)
    origin.check()
    settings_read, origins = settings_of(tuple(settings or ()), variables(origin))
    evidence = gather(origin, settings_read, pod)
    gate = Gate(evidence.facts, offline_rules(settings_read, origins))
    answer = explanation(evidence.arranged, gate, pod, aims_of(settings_read), gated=evidence.gated)
    if answer is None:
        raise BadFile(f"{pod}: there is no such pod, neither on a node nor pending.")
    return _show(msgspec.to_builtins(answer), output)


def _of_daemon(remote: Remote, name: str, output: LiveOutput) -> None:
    """A node; or the checks of a pod that is there, or else its moves."""
    namespace, slash, pod = name.partition("/")
    if not slash:
        node_answer = node_explanation(remote, name)
        return typer.echo(output.text(node_answer, lambda: node_words(node_answer)))
    try:
        return _show(daemons_explanation(remote, namespace, pod), output)
    except NoAnswer:
        moved = _moves(remote, name)
        if not moved:
            raise
        answer = {"pod": name, "evictions": moved}
        return typer.echo(output.text(answer, lambda: "\n".join(map(eviction_words, moved))))


def _moves(remote: Remote, pod: str) -> list[dict[str, Any]]:
    try:
        return evictions_of(remote, pod)
    except NoAnswer:
        return []


def _show(answer: dict[str, Any], output: LiveOutput) -> None:
    if output is LiveOutput.TABLE:
        _print(answer)
    else:
        typer.echo(output.text(answer, str, indent=2))


def _print(answer: dict[str, Any]) -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    refused = [check["check"] for check in answer["checks"] if check["verdict"] == "refused"]
    end = "may be moved" if answer["allowed"] else "may not be moved" + (f": {', '.join(refused)}" if refused else "")
    where = f" on {answer['node']}" if answer["node"] else ""
    console.print(f"{answer['pod']}{where} of {answer['workload'] or 'no workload'} {end}.")
    for note in answer["notes"]:
        console.print(f"note: {note}")
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    for column in ("CHECK", "VERDICT", "REASON"):
        table.add_column(column, no_wrap=column != "REASON")
    for check in answer["checks"]:
        table.add_row(
            str(check["number"]), check["check"], check["verdict"], check["reason"] + _numbers(check["numbers"])
        )
        if check.get("price"):
            console.print(f"what would free it: {check['price']['setting']}")
    console.print(table)


def _numbers(numbers: dict[str, float]) -> str:
    seconds = "age" in numbers
    listed = ", ".join(
        f"{name.replace('_', ' ')} {duration(value) if seconds else f'{value:g}'}" for name, value in numbers.items()
    )
    return f" ({listed})" if listed else ""


def node_explanation(remote: Remote, name: str) -> dict[str, Any]:
    """`/api/v1/nodes/NAME` with the strategy and terms of its score. Raises BallastError for an unknown node."""
    path = f"/api/v1/nodes/{quote(name, safe='')}"
    try:
        answer: dict[str, Any] = remote.json(path)
    except NoAnswer as error:
        if error.status != 404:
            raise
        raise BallastError(f"{name}: no such node among the selected ones. A pod is named NAMESPACE/POD.") from None
    score = remote.json(f"{path}/score")
    return {**answer, "strategy": score["strategy"], "terms": score["terms"]}


def node_words(found: Mapping[str, Any]) -> str:
    """The same in words: state, loads, what the score is made of, and the label."""
    published = found["published"]
    label = f"label score {published['score'] or 'none'}, load {published['load'] or 'none'}"
    if found["state"] != "known":
        lost = f", it lost {' and '.join(found['lost'])}" if found["lost"] else ""
        return f"{found['name']} is {found['state']}{lost}: its load is unknown, so it has no score; {label}."
    terms = ", ".join(f"{name} {value:g}" for name, value in found["terms"].items()) or "none"
    window, loads = next(iter(found["windows"].items()))
    lines = [
        f"{found['name']} has score {found['score']} of 100 (100 is the best place for a pod); {label}.",
        f"made of   {found['strategy']}: {terms}",
    ]
    lines += [
        f"  {name}: mean {one['mean']:.1%}, deviation {one['std']:.1%}, p95 {one['p95']:.1%} over {window}"
        for name, one in loads.items()
        if one["mean"] is not None
    ]
    return "\n".join(lines)


def evictions_of(remote: Remote, pod: str) -> list[dict[str, Any]]:
    """Recent evictions of a pod, the newest first."""
    recent: list[dict[str, Any]] = remote.json("/api/v1/evictions")["recent"]
    return sorted((eviction for eviction in recent if eviction["pod"] == pod), key=lambda each: -each["time"])


def eviction_words(each: Mapping[str, Any]) -> str:
    """Why a pod was moved, and what it brought."""
    share = each["measured"].get("share")
    brought = "not measured yet" if share is None else f"{share:.0%} of what was predicted"
    where = f"to {each['landed_on']}" if each["landed_on"] else f"planned for {each['to'] or 'any other node'}"
    return (
        f"{each['pod']} was moved off {each['from']} by {each['kind']}, {where}: {each['why']}. "
        f"It is {each['status']}; the effect is {brought}. Plan {each['plan']}."
    )
