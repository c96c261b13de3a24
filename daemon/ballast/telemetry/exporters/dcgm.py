"""Preset `dcgm`: resource `gpu` of NVIDIA/dcgm-exporter, the mean over a node's GPUs (or over its MIG instances)."""

from ballast.telemetry.exporters.terms import Exporter, Terms

_DEVICES = "gpu, UUID, GPU_I_ID"


def _queries(terms: Terms) -> dict[str, str]:
    def mean(metric: str) -> str:
        return f"avg by ({terms.by}) (max by ({terms.by}, {_DEVICES}) ({terms.pick(metric)}))"

    active = mean("DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    return {"gpu": terms.either(f"{mean('DCGM_FI_DEV_GPU_UTIL')} / 100", active)}


EXPORTER = Exporter(
    _queries,
    raw=("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    labels=("Hostname", "node", "instance"),
    own=frozenset(
        (
            *("gpu", "UUID", "uuid", "device", "modelName", "pci_bus_id", "GPU_I_ID", "GPU_I_PROFILE", "Hostname"),
            *("DCGM_FI_DRIVER_VERSION", "DCGM_FI_CUDA_DRIVER_VERSION", "err_code", "err_msg"),
            *("exported_pod", "exported_namespace", "exported_container", "exported_uid", "pod_uid"),
        )
    ),
)
