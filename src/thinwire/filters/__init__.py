"""Filters: interval tables, rectangle indexes, `where` predicates and watch conditions.

The indexes need compiled kernels, which take half a second to load. Parsing an expression does not load them.
"""
