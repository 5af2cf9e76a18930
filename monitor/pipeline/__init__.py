"""The steps of one run, from its users to the stored result, and the steps of one delivery.

The code uses the outside world through ports only.
"""
