"""A publisher's page as text and as parsed samples."""

from prometheus_client.parser import text_string_to_metric_families

from monitor.export.publisher import PrometheusPublisher

ALERT = {
    "comparison": "home-feed",
    "alert": "SimilarityLow",
    "segment": "all",
    "severity": "critical",
}


class Page:
    """A scraped page: ask for one sample's value (None when absent), or whether a series shows at all."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples.get((f"rankwatch_{name}", frozenset(labels.items())))

    def names(self) -> set[str]:
        return {name for name, _ in self.samples if name.startswith("rankwatch_")}

    def labelled(self, name: str) -> list[dict[str, str]]:
        return [dict(labels) for found, labels in self.samples if found == f"rankwatch_{name}"]

    def lacks(self, samples: str) -> list[str]:
        """Those of these lines that the page does not show.

        They are written without ``rankwatch_``.
        """
        lines = [f"rankwatch_{line.strip()}\n" for line in samples.splitlines() if line.strip()]
        return [line for line in lines if not Page(line).samples.items() <= self.samples.items()]


def scraped(publisher: PrometheusPublisher) -> Page:
    return Page(publisher.render()[0].decode())
