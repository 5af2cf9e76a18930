"""How evenly an arm spreads its places over the items."""

from __future__ import annotations

import math
from typing import ClassVar

from monitor.arm_metrics.arm_metric import ArmMetric
from monitor.arm_metrics.listing import Listing
from monitor.kernels.arms.exposure import entropy, gini


class ExposureGini(ArmMetric):
    """Inequality of exposure over the whole catalogue; see `monitor.kernels.arms.exposure.gini`."""

    name: ClassVar[str] = "exposure_gini"
    meaning: ClassVar[str] = "Inequality of the items' exposure, those never listed included; high: few items have most places"
    source: ClassVar[str] = "Gini (1912); Fleder and Hosanagar (2009), Blockbuster culture's next rise or fall"

    def measure(self, listing: Listing) -> float:
        """Gini coefficient."""
        return gini(listing.counts, listing.catalogue)


class ExposureEntropy(ArmMetric):
    """Shannon entropy of the exposure in bits; see `monitor.kernels.arms.exposure.entropy`."""

    name: ClassVar[str] = "exposure_entropy"
    high: ClassVar[float] = math.inf
    meaning: ClassVar[str] = "Variety of what is listed, in bits; one more is twice as many items listed equally often"
    source: ClassVar[str] = "Shannon (1948), A mathematical theory of communication, section 6"

    def measure(self, listing: Listing) -> float:
        """Entropy in bits."""
        return entropy(listing.counts)


class ExposureEntropyNormalized(ArmMetric):
    """Entropy by that of a catalogue listed evenly, log2 N; undefined for a catalogue of one item."""

    name: ClassVar[str] = "exposure_entropy_normalized"
    meaning: ClassVar[str] = "Variety of what is listed, by that of the whole catalogue listed evenly; high: evenly spread"
    source: ClassVar[str] = "Shannon (1948), A mathematical theory of communication, section 7: relative entropy"

    def measure(self, listing: Listing) -> float | None:
        """Entropy by log2 of the catalogue's size."""
        if listing.catalogue < 2:  # noqa: PLR2004 - a single item has nothing to be spread over
            return None
        return min(1.0, entropy(listing.counts) / math.log2(listing.catalogue))
