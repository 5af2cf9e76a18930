"""A publisher's page as text and as parsed samples."""

from prometheus_client.parser import text_string_to_metric_families

ALERT = {
    "comparison": "home-feed",
    "alert": "SimilarityLow",
    "segment": "all",
    "severity": "critical",
}


class Page:
    """A scraped page: ask for one sample's value (None when absent), or whether a series shows at all."""

    def __init__(self, text):
        self.text = text
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name, **labels):
        return self.samples.get((f"rankwatch_{name}", frozenset(labels.items())))

    def names(self):
        return {name for name, _ in self.samples if name.startswith("rankwatch_")}

    def labelled(self, name):
        return [dict(labels) for found, labels in self.samples if found == f"rankwatch_{name}"]

    def lacks(self, samples):
        """Those of these lines that the page does not show.

        They are written without ``rankwatch_``.
        """
        lines = [f"rankwatch_{line.strip()}\n" for line in samples.splitlines() if line.strip()]
        return [line for line in lines if not Page(line).samples.items() <= self.samples.items()]


def scraped(publisher):
    return Page(publisher.render()[0].decode())
