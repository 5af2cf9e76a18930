"""The web server: metrics, health and pages over HTTP, and who may read them.

What is shown is handed in.
"""
