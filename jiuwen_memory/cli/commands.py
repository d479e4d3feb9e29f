"""All commands: importing a module registers what it defines. What is heavy they import when they run."""

from __future__ import annotations

from jiuwen_memory.cli import adding, doctor, exchanging, keeping, reading, serving, talking, viewing
from jiuwen_memory.cli.calls import app

__all__ = ["adding", "app", "doctor", "exchanging", "keeping", "reading", "serving", "talking", "viewing"]
