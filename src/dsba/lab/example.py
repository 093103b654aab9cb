"""The commented experiment file that ``dsba compare --example`` prints."""

from dsba.pages.templates import asset

EXAMPLE = asset("dsba.lab", "example.toml")
