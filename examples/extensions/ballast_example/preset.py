"""telegraf: loads of nodes as Telegraf's inputs `cpu` and `mem` measure them."""


class Telegraf:
    """Telegraf names the host in the label `host`: set BALLAST_TELEMETRY__NODE_LABEL=host."""

    def queries(self, label, matchers, window):
        total = ",".join(['cpu="cpu-total"', *matchers])
        return {
            "cpu": f"max by ({label}, cluster) (1 - cpu_usage_idle{{{total}}} / 100)",
            "memory": f"max by ({label}, cluster) (mem_used_percent{{{','.join(matchers)}}} / 100)",
        }

    def freshness(self, label, matchers):
        return f"max by ({label}, cluster) (timestamp(mem_used_percent{{{','.join(matchers)}}}))"


PRESET = Telegraf()
