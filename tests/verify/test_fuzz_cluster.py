"""A campaign on a Dask cluster: nothing is lost when a worker dies."""

from __future__ import annotations

from typing import Any

import pytest

from assay.semantics.errors import Invalid
from assay.verify.fuzz.campaign import Campaign, Plan
from assay.verify.fuzz.cases import Recipe
from assay.verify.fuzz.cluster import Cluster

distributed = pytest.importorskip("distributed", reason="Dask is not installed; pip install 'assay[cluster]'")
pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # what Dask does to itself is not ours

SMALL = Recipe(("add", "nn.relu", "concat"), 6, ())


def test_a_worker_that_dies_loses_nothing() -> None:
    """Two workers; one is ended in the middle. Every example is judged once."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as local:
        workers = Cluster(local.scheduler_address)
        ended = False

        def tell(campaign: Campaign) -> None:
            nonlocal ended
            if not ended and campaign.judged >= 20:
                ended = True
                next(iter(local.workers.values())).process.process.kill()

        campaign = Campaign(Plan("values", SMALL, examples=120, batch=10), None, tell)
        try:
            campaign.run(workers)
        finally:
            workers.close()
    assert ended
    assert campaign.judged == sum(campaign.done.kinds.values()) == 120
    assert campaign.done.kinds["right"] > 100 and not campaign.open


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid) as said:
        Cluster("tcp://127.0.0.1:1", timeout=1)
    assert said.value.label == "fuzz.C3"


def test_no_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: Any = {"distributed": None}
    for name, value in modules.items():
        monkeypatch.setitem(__import__("sys").modules, name, value)
    with pytest.raises(Invalid) as said:
        Cluster("tcp://127.0.0.1:1")
    assert said.value.label == "fuzz.C3"
