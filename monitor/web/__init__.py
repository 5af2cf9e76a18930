"""The web server: pages, metrics and health over HTTP, and who may read them."""
