"""primary: pods with the label `example.com/role: primary` are never evicted, such as the primary of a database."""

from ballast.eviction.check_input import allow, refuse
from ballast.eviction.gate import Row, Scope


def primary(case):
    """Reads only labels, so pods of one template share the answer (Scope.TEMPLATE)."""
    role = case.pod.labels.get("example.com/role", "none")
    return refuse("the pod is a primary") if role == "primary" else allow(f"the pod's role is {role}")


ROW = Row("primary", primary, Scope.TEMPLATE)
