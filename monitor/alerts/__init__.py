"""From what a run measured to verdicts, states and transitions, and what is sent of these. Pure: no I/O, no clock."""

from monitor.alerts.conditions import Staleness, count_standstills, judge_stale
from monitor.alerts.incidents import GROUP_FOR, assign_incidents
from monitor.alerts.machine import INSTALLATION, Evaluation, advance, retire_alerts
from monitor.alerts.notification_policy import (
    Dispatch,
    MaintenanceWindow,
    Matcher,
    NotificationPolicy,
    Route,
    compose_messages,
    is_silenced,
)
from monitor.alerts.rule_evaluation import JUDGES, Figures, evaluate_rules, segments_of, thin_segments
from monitor.alerts.verdicts import Reading
