import sys

from ballast.model.shape import ContainerShape, shape_of

MISSING = {"cpu": 0.1, "memory": 200.0}


def test_what_a_container_does_not_ask_for_can_be_filled_in_but_an_explicit_zero_stays() -> None:
    shape = shape_of([ContainerShape({"cpu": 1.0}), ContainerShape({"cpu": 0.0, "memory": 5.0})])
    assert shape.requests == {"cpu": 1.0, "memory": 5.0}
    assert shape.total_requests(MISSING) == {"cpu": 1.0, "memory": 205.0}


def test_pod_level_requests_and_overhead_can_be_left_out() -> None:
    shape = shape_of([ContainerShape({"cpu": 1.0})], (), {"cpu": 0.25}, ContainerShape({"cpu": 3.0}))
    assert shape.requests == {"cpu": 3.25}
    assert shape.total_requests(pod_level=False) == {"cpu": 1.25}
    assert shape.total_requests(overhead=False) == {"cpu": 3.0}


def test_overhead_adds_to_the_limits_that_exist() -> None:
    shape = shape_of([ContainerShape({}, {"cpu": 1.0})], (), {"cpu": 0.5, "memory": 7.0})
    assert shape.limits == {"cpu": 1.5}


def test_a_sidecar_counts_beside_the_init_containers_after_it() -> None:
    sidecar = ContainerShape({"cpu": 1.0}, sidecar=True)
    assert shape_of([ContainerShape({"cpu": 1.0})], [sidecar, ContainerShape({"cpu": 4.0})]).requests == {"cpu": 5.0}
    assert shape_of([ContainerShape({"cpu": 1.0})], [ContainerShape({"cpu": 4.0}), sidecar]).requests == {"cpu": 4.0}


def test_the_amounts_of_a_lone_container_are_held_once() -> None:
    container = ContainerShape({"cpu": 1.0}, {"cpu": 2.0})
    shape = shape_of([container])
    assert shape.requests is container.requests
    assert shape.limits is container.limits
    assert sys.getsizeof(shape) < 120
