"""A user's graph as one HTML page that needs nothing else: `await to_html(memory, path, user_id)`."""

from jiuwen_memory.viewer.writing import ViewerPage, to_html

__all__ = ["ViewerPage", "to_html"]
