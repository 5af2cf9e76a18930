"""The gate. It decides on a rollout from stored scores. It starts no run and stores nothing."""

from monitor.service.gate.decision import (
    Certificate,
    GateAnswers,
    decide_gate,
    describe_certificate,
)
from monitor.service.gate.question import make_question
