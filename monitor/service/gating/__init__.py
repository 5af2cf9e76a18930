"""A decision on a rollout from stored scores: what is asked, what is read, what is said. Nothing is run and nothing stored."""

from monitor.service.gating.answering import Answerer
from monitor.service.gating.certificate import Certificate, JudgedRun, JudgedSegment
from monitor.service.gating.choosing import WORDS, LeftOut
from monitor.service.gating.opening import answerer
from monitor.service.gating.quantity import Yardstick
from monitor.service.gating.question import EACH, Question, put
from monitor.service.gating.waiting import wait

__all__ = [
    "EACH",
    "WORDS",
    "Answerer",
    "Certificate",
    "JudgedRun",
    "JudgedSegment",
    "LeftOut",
    "Question",
    "Yardstick",
    "answerer",
    "put",
    "wait",
]
