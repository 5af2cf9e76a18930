"""Charts as SVG made on the server: a page shows them without a script, and a report without a server.

Colours are classes of the style sheet beside this, which pages and notebooks share, so that one chart serves light and dark.
Whatever is drawn is also told as a table by the page that shows it. All text is escaped; numbers that are not finite are left
out.
"""
