"""Outcomes of users, such as clicks: the difference of the arms, its interval, and the logs they are in."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
import sqlalchemy as sa

from commands import objects, rankwatch
from monitor.model.errors import SourceError
from monitor.model.rankings import Arm
from monitor.settings.unpaired_options import UnpairedOptions
from monitor.sources import open_outcomes
from monitor.statistics.unpaired.outcomes import (
    ALPHA,
    Moments,
    boundary,
    moments,
    relative_difference,
)
from servers.lists import write_csv, write_jsonl
from sources.file.test_joined import second_ring
from tables import cells
from unpaired import world
from unpaired.world import BEGINS, DAY
