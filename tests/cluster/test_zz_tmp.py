import sys; sys.path.insert(0,'/work/main')
from tests.cluster.test_install import *
@pytest.mark.parametrize("release",["4"],indirect=True)
def test_off(release):
    begun = release.cluster.audit.here()
    release.install("--set", ",".join(f"settings.{p}.mode=off" for p in ("publishing","power","eviction")))
    [leader, _] = release.pods()
    import time
    with release.daemon(leader) as d: time.sleep(6)
    print(d.log.read_text()[-3000:])
    calls = release.cluster.audit.calls(user=release.user("ballast"), since=begun)
    print(forbidden(calls)); assert not forbidden(calls)
@pytest.mark.parametrize("release",["4"],indirect=True)
def test_lease_ns(release):
    begun = release.cluster.audit.here()
    release.install("--set", "settings.lease.namespace=kube-system")
    [leader, _] = release.pods()
    import time
    with release.daemon(leader) as d: time.sleep(5)
    calls = release.cluster.audit.calls(user=release.user("ballast"), since=begun)
    print({(c.verb,c.uri.split("?")[0]) for c in calls}); assert not forbidden(calls)
