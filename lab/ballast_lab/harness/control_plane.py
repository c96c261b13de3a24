"""etcd, kube-apiserver, kube-controller-manager and kwok: a cluster whose nodes are only objects."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from ballast_lab.harness.api import Api, Refused
from ballast_lab.harness.audit import POLICY, Audit
from ballast_lab.harness.certificates import Certificates
from ballast_lab.harness.kubeconfig import write_kubeconfig
from ballast_lab.harness.process import Process, free_port
from ballast_lab.harness.rights import Right
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually

RUNS = "example.com/runs"
"""Annotation of pods of Jobs that are not to end by themselves."""

USERS = {"admin": "system:masters", "system:kube-scheduler": ""}


class ControlPlane:
    """Starts at construction, ends with `stop`. `api` is the administrator's; `audit` sees everybody.

    `features` are feature gates of the API server.
    """

    def __init__(self, tools: Tools, folder: Path, *, audit_policy: str = POLICY, features: str = "") -> None:
        self.tools = tools
        self.folder = folder
        self._audit_policy = audit_policy
        self._features = features
        self.certificates = Certificates.issue(folder)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.audit = Audit(folder / "audit.log")
        self.processes: list[Process] = []
        self.rights: dict[str, set[Right]] = {}
        """{ServiceAccount: what charts that were installed here grant to it}."""
        self._stack = ExitStack()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self.api = self._stack.enter_context(self.as_token(_token("admin")))
        self.etcd_url = self._start_etcd()
        self._start_apiserver(self.etcd_url)
        self.admin_kubeconfig = self.kubeconfig("admin")
        self._start_controller_manager()
        self._start_kwok()
        eventually("the default namespace", lambda: self.api.get("/api/v1/namespaces/default"))

    def stop(self) -> None:
        self._stack.close()

    def run(self, process: Process) -> Process:
        self.processes.append(process)
        self._stack.callback(process.stop)
        return process

    def used_rights(self) -> set[Right]:
        """What those accounts were allowed to do and did, in any namespace."""
        ends = tuple(f":{account}" for account in self.rights)
        return {
            (call.group, call.resource, call.verb)
            for call in self.audit.calls()
            if call.permitted and call.user.startswith("system:serviceaccount:") and call.user.endswith(ends)
        }

    def tails(self) -> str:
        return "\n".join(process.tail(5) for process in self.processes)

    def as_token(self, token: str) -> Api:
        return Api(self.url, token, self.certificates.ca)

    def kubeconfig(self, user: str) -> Path:
        """For one of USERS."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        return write_kubeconfig(path, url=self.url, ca=self.certificates.ca, token=_token(user))

    def account_token(self, namespace: str, name: str) -> str:
        """A token of a ServiceAccount, which is made (with its namespace) if it is not there."""
        for path, body in (
            ("/api/v1/namespaces", {"metadata": {"name": namespace}}),
            (f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}}),
        ):
            try:
                self.api.post(path, body)
            except Refused as refused:
                if refused.status != 409:
                    raise
        asked = {"spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600}}
        answer = self.api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", asked)
        return str(answer["status"]["token"])

    def account_kubeconfig(self, namespace: str, name: str) -> Path:
        path = self.folder / f"{namespace}-{name}.kubeconfig"
        token = self.account_token(namespace, name)
        return write_kubeconfig(path, url=self.url, ca=self.certificates.ca, token=token, namespace=namespace)

    def _start_etcd(self) -> str:
        port, peers = free_port(), free_port()
        url = f"http://127.0.0.1:{port}"
        command = [
            self.tools.etcd_kwok / "server",
            "--unsafe-no-fsync",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
            "--log-level=warn",
        ]
        self.etcd = self.run(Process("etcd", command, self.folder / "etcd.log", port=port))
        return url

    def _start_apiserver(self, etcd: str) -> None:
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(self._audit_policy)
        tokens = self.folder / "tokens.csv"
        tokens.write_text("".join(f'{_token(user)},{user},{user},"{group}"\n' for user, group in USERS.items()))
        command = [
            self.tools.kubernetes / "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={self.certificates.server}",
            f"--tls-private-key-file={self.certificates.server_key}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={self.certificates.account_key}",
            f"--service-account-signing-key-file={self.certificates.account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit.path}",
            f"--feature-gates={self._features}",
        ]
        log = self.folder / "kube-apiserver.log"
        self.apiserver = self.run(Process("kube-apiserver", command, log, ready=self.api.ready, port=self.port))

    def _start_controller_manager(self) -> None:
        kubeconfig = self.admin_kubeconfig
        command = [
            self.tools.kubernetes / "kube-controller-manager",
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--service-account-private-key-file={self.certificates.account_key}",
            "--leader-elect=false",
            "--kube-api-qps=200",
            "--node-monitor-grace-period=300s",  # a pause of the machine is no lost node
            "--secure-port=0",
        ]
        self.run(Process("kube-controller-manager", command, self.folder / "kube-controller-manager.log"))

    def _start_kwok(self) -> None:
        stages = self.folder / "stages.yaml"
        stages.write_text(_with_long_jobs((self.tools.etcd_kwok / "stages.yaml").read_text()))
        command = [
            self.tools.etcd_kwok / "kwok",
            f"--kubeconfig={self.admin_kubeconfig}",
            "--manage-all-nodes=true",
            f"--config={stages}",
            "--node-lease-duration-seconds=40",
        ]
        self.run(Process("kwok", command, self.folder / "kwok.log"))


def _with_long_jobs(stages: str) -> str:
    """kwok has pods of Jobs succeed at once; those with the annotation `RUNS` go on."""
    [*others, last] = stages.split("name: pod-complete\n")
    head, found, tail = last.partition("matchExpressions:\n")
    assert len(others) == 1
    assert found
    kept = f"""    - key: '.metadata.annotations["{RUNS}"]'\n      operator: 'DoesNotExist'\n"""
    return f"{others[0]}name: pod-complete\n{head}{found}{kept}{tail}"


def _token(user: str) -> str:
    return f"token-of-{user.replace(':', '-')}"
