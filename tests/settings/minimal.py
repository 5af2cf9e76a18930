"""The shortest configuration that loads, and the type of what loads a text."""

from collections.abc import Callable

from monitor.settings import Settings

HTTP = '{http: {url: "http://%s.internal/{user}"}}'
MINIMAL = f"""comparisons:
  - name: feed
    every: 15m
    baseline: {HTTP % "a"}
    candidate: {HTTP % "b"}
    users: {{file: {{path: users.csv, user: id}}}}
"""

Load = Callable[..., Settings]
