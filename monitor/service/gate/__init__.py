"""The gate. It decides on a rollout from stored scores, and runs and stores nothing."""

from monitor.service.gate.decision import Certificate, GateAnswers, decide, describe_certificate
from monitor.service.gate.question import make_question
