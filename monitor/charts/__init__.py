"""Charts as SVG made on the server: a page shows them without a script, and a report without a server.

Colours are classes of the style sheet beside this, which pages and notebooks share, so that one chart serves light and dark.
Whatever is drawn is also told as a table by the page that shows it. All text is escaped; numbers that are not finite are left
out.
"""

from monitor.charts.bars import Bar, draw_bars, draw_heat_map, draw_histogram, draw_waterfall
from monitor.charts.slope_chart import draw_slopes
from monitor.charts.svg import Plot, read_style
from monitor.charts.time_chart import Band, Level, Point, Span, draw_series, draw_sparkline, draw_stack
