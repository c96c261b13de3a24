"""HTTP: /watcher, /metrics, health, the JSON API and the page."""
