"""Charts as server-made SVG: their colours are classes of the style sheet beside this, so that one serves light and dark.

What is drawn is also told as a table by the page. All text is escaped; numbers that are not finite are left out.
"""
