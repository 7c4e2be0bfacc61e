"""What people and programs see of a crawl: control, status, charts, metrics, the HTTP API and the dashboard."""
