"""Frameworks' graphs as programs of the language: what to tune, and where its kernels go."""
