"""Figures of histories."""
