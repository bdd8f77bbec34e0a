"""Rows before they are trained: read, checked, rendered, tokenised, counted and cached."""
