"""The gate: a decision on a rollout from stored scores. Runs nothing and stores nothing."""

from monitor.service.gate.decision import (
    Certificate,
    GateAnswers,
    JudgedRun,
    decide,
    describe_certificate,
    judge_stored,
)
from monitor.service.gate.judged_runs import LEFT_OUT_TEXTS, LeftOut
from monitor.service.gate.question import EACH, Question, Yardstick, make_question
