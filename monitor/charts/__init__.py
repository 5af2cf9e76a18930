"""Charts as SVG made on the server.

Colours are classes of the style sheet in this folder, so one drawing serves light and dark.
The pages show the same values as a table. All text is escaped. Numbers that are not finite are
left out.
"""
