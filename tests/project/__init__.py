"""Tests of the project: linters, licences, manifests, documents, monitoring files."""
