"""Metrics in the text format of Prometheus: what a checkpoint says of its join now.

Counters go on over restarts of a query, because they are the totals that its commits carry. Gauges are of the last
batch. There are no keys in the metrics: a name per key would be a time series per key, and keys may be private.

Guarantee: what is told needs the newest RECENT batches and the commits with a rebalance, so `evenjoin metrics` reads no
others; and nothing is changed. A lag is told only where event times are instants, with a time zone.
Not here: how they reach Prometheus (server.py's /metrics, and `evenjoin metrics` for its textfile collector).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import TYPE_CHECKING

from evenjoin.page.follow import Past
from evenjoin.page.model import SPANS, hottest, lag_s, recent, spans
from evenjoin.page.moments import Moment
from evenjoin.shown import visible

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PER_SIDE = (
    ("rows", "Rows read."),
    ("late", "Rows that came after the watermark."),
    ("ahead", "Rows set aside because their event time was too far ahead."),
    ("unmatchable", "Rows that nothing can match."),
)


def exposition(past: Past) -> bytes:
    """The metrics of a past, as Prometheus reads them."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(past))
    return bytes(generate_latest(registry))


class _Collector:
    def __init__(self, past: Past) -> None:
        self._past = past

    def collect(self) -> Iterator[Metric]:
        last = self._past.last
        if last is not None:
            yield from _counters(self._past, last)
            yield from _of_instances(self._past, last)
            yield from _of_the_batch(self._past, last)


def _counters(past: Past, last: Moment) -> Iterator[Metric]:
    """Totals since the first batch."""
    for name, said in PER_SIDE:
        counts = getattr(last.totals, name)
        kind = f"evenjoin_{name}" if name == "rows" else f"evenjoin_{name}_rows"
        yield _by_side(kind, said, past, counts)
    yield _counter("evenjoin_results", "Results found.", last.totals.results)
    yield _counter("evenjoin_expired_tuples", "Stored tuples that expired.", last.totals.expired)


def _of_instances(past: Past, last: Moment) -> Iterator[Metric]:
    """What each instance did in the last batch, and holds after it."""
    from prometheus_client.core import GaugeMetricFamily

    busy = GaugeMetricFamily("evenjoin_instance_busy_seconds", "Processor time of the last batch.", labels=["instance"])
    size = GaugeMetricFamily("evenjoin_instance_state_bytes", "Bytes of stored tuples.", labels=["instance"])
    kept = GaugeMetricFamily("evenjoin_instance_stored_tuples", "Stored tuples.", labels=["instance", "side"])
    for number in range(last.instances):
        busy.add_metric([str(number)], float(last.busy[number]) / 1000)
        size.add_metric([str(number)], float(last.bytes[number]))
        for side, alias in enumerate(past.join.sides):
            kept.add_metric([str(number), visible(alias)], float(last.stored[number, side]))
    yield from (busy, size, kept)


def _of_the_batch(past: Past, last: Moment) -> Iterator[Metric]:
    """The last batch as a whole. What is not known is left out."""
    from prometheus_client.core import GaugeMetricFamily

    hot = hottest(recent(past.moments), 1)
    mark = last.watermark.value if past.join.zoned(0) else None
    watermark = float("nan") if mark is None else mark / 1e6
    values = (
        ("batch", "The number of the last batch.", float(last.batch)),
        ("batch_seconds", "How long the last batch took.", last.duration_ms / 1000),
        ("last_commit_timestamp_seconds", "When the last batch ended.", last.ended or float("nan")),
        ("instances", "Join tasks.", float(last.instances)),
        ("imbalance_ratio", "Busy time of the busiest instance over the mean; 1 is even.", last.busy_ratio),
        ("own_imbalance", "Imbalance by the strategy's own measure.", last.own),
        ("own_imbalance_threshold", "Above it the strategy makes a plan.", last.threshold),
        ("hottest_key_ratio", "The hottest key's part of the rows.", hot[0].share / 100 if hot else float("nan")),
        ("rebalances", "Changes of the routing table in the commits still kept.", float(len(past.migrations))),
        ("watermark_seconds", "The watermark, in seconds since the epoch.", watermark),
    )
    for name, said, value in values:
        if not isnan(value):
            yield GaugeMetricFamily(f"evenjoin_{name}", said, value=value)
    parts = GaugeMetricFamily("evenjoin_batch_part_seconds", "What the last batch spent its time on.", labels=["part"])
    for part in SPANS:
        parts.add_metric([part.replace(" ", "_")], float(spans([last])[part][0]))
    yield parts
    lags = GaugeMetricFamily("evenjoin_lag_seconds", "The clock minus the latest event time.", labels=["side"])
    for side, alias in enumerate(past.join.sides):
        lag = lag_s(last, side) if past.join.zoned(side) else float("nan")
        if not isnan(lag):
            lags.add_metric([visible(alias)], lag)
    yield lags


def _by_side(name: str, said: str, past: Past, counts: tuple[int, ...]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, said, labels=["side"])
    for side, alias in enumerate(past.join.sides):
        family.add_metric([visible(alias)], float(counts[side] if side < len(counts) else 0))
    return family


def _counter(name: str, said: str, value: int) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(name, said, value=float(value))
