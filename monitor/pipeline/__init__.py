"""Executes runs, from the users to the stored result, and delivers messages.

The code reaches databases, sources and receivers only through ports.
"""
