"""What the daemon serves: the board, its listeners, and who answers for the leader."""

import os
from functools import partial
from typing import Any

from ballast.cluster.context import Context
from ballast.cluster.leader_page import LeaderPage, Tls
from ballast.cluster.token_review import TokenReviewer
from ballast.cluster.write import object_path
from ballast.extender.decisions import ExtenderService
from ballast.jobs import sentences
from ballast.model.load_limits import by_resource
from ballast.runtime.long_history import LongHistory
from ballast.serving import fleet_columns
from ballast.serving.board import Board, DaemonAnswers
from ballast.serving.callers import Callers
from ballast.serving.refusals import Refusals
from ballast.serving.server import Server
from ballast.serving.standby import Leader
from ballast.serving.web_apps import create_app, create_extender_app, create_health_app
from ballast.settings import EvictionSettings, Mode


def board_of(context: Context, config: list[dict[str, Any]], max_age: float) -> Board:
    """The board, with what it asks when it is shown."""
    return Board(
        clock=context.clock,
        conditions=lambda: [sentences.condition(item) for item in context.conditions.list()],
        leader=context.leadership.is_leader,
        follows=lambda: context.acting and not context.leadership.is_leader(),
        paused=context.paused,
        planners=_planners(context.settings.eviction),
        config=config,
        max_age=max_age,
        high=by_resource(context.settings.publishing.high),
        find_pods=partial(fleet_columns.find_pods, context.cache),
        node_metrics=context.settings.metrics.nodes,
        long_history=LongHistory(context.settings, context.clock, context.settings.windows.lengths[0].text),
    )


def _planners(eviction: EvictionSettings) -> dict[str, str]:
    return {name: mode.value for name, mode in eviction.running.items() if mode is not Mode.OFF}


def listeners(context: Context, board: Board, extender: ExtenderService, answers: DaemonAnswers) -> list[Server]:
    """The page first; then the probes' port, and the extender's where it has one of its own."""
    settings, metrics = context.settings, context.metrics
    http, apart, authority = settings.http, settings.http.of_extender(), settings.extender.client_ca_file
    callers, clock = Callers(settings.extender), context.clock
    of_page, of_health = Refusals(metrics, clock, "page"), Refusals(metrics, clock, "health")
    reviewed = (TokenReviewer(context.api), http.reviewed) if http.reviewed else None
    scheduling = None if apart else extender
    page = create_app(board, metrics, scheduling, callers, http.allowed_hosts, reviewed, answers, of_page)
    health = create_health_app(board, of_health, answers, reviewed)
    servers = [
        Server(page, http, of_page.count, optional_ca=None if apart else authority),
        Server(health, http.of_health(), of_health.count, "HEALTH_PORT"),
    ]
    if apart is not None:
        if authority is not None:
            apart = apart.model_copy(update={"client_ca_file": None})
        of_extender = Refusals(metrics, clock, "extender")
        apart_app = create_extender_app(metrics, extender, of_extender, callers)
        servers.append(Server(apart_app, apart, of_extender.count, "EXTENDER_BIND", authority))
    return servers


def leader_of(context: Context, board: Board) -> Leader:
    """Whom this replica asks for what the leader alone knows."""
    http, service = context.settings.http, context.settings.extender.service
    namespace = os.environ.get("POD_NAMESPACE") or context.namespace
    collection = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    tls = Tls(http.tls_cert_file, http.tls_key_file) if http.tls_cert_file and http.tls_key_file else None
    page = LeaderPage(
        context.api,
        context.machine_clock,
        path=object_path(collection, service),
        pod=os.environ.get("POD_NAME"),
        tls=tls,
        standing_by=context.leadership.standing_by,
    )
    return Leader(board.follows, page.get)
