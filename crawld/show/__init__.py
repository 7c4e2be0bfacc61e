"""Views of a crawl for people and programs: control, status, charts, metrics, the HTTP API and the dashboard."""
