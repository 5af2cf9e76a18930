"""Draws charts as SVG on the server.

A drawing names classes, and the style sheet in this folder gives them colours. So the same drawing
works on light and on dark pages. Pages also show the values as a table. All text is escaped.
Numbers that are not finite are left out.
"""
