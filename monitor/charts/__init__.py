"""Draws charts as SVG on the server.

The style sheet in this folder gives classes their colours. So the same drawing works on light and
dark pages. The pages also show the values as a table. All text is escaped. Numbers that are not
finite are left out.
"""
