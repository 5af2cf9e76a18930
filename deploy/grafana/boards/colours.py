"""The palette of Okabe and Ito (2008), which colour-blind people can distinguish, and what each colour stands for."""

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#999999"
OKABE_ITO = (BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE, GREY)
SEQUENTIAL = "continuous-viridis"
"""For series whose names are not known beforehand: coloured by their last value, as Grafana's viridis has it."""

GOOD, WARN, BAD = GREEN, ORANGE, VERMILLION
STATES = {0: ("quiet", GOOD), 1: ("pending", WARN), 2: ("firing", BAD)}
"""What the values of ``alert_state`` mean."""

STATUSES = {"ok": GOOD, "insufficient": WARN, "failed": BAD, "abandoned": GREY}
ARMS = {"baseline": BLUE, "candidate": ORANGE}
REASONS = {
    "missing": VERMILLION,
    "empty": ORANGE,
    "short": SKY,
    "duplicated": BLUE,
    "timeout": PURPLE,
    "unreachable": GREY,
    "rate_limited": YELLOW,
    "(http|server)_error": GREEN,
    "too_large|malformed|wrong_user|duplicate_user|unavailable|too_slow": BLACK,
}
"""Colours of coverage reasons, as regular expressions over names: what occurs rarely shares one."""
