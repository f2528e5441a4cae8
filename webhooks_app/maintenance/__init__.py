"""Periodic jobs other than delivery. Every worker process can run them, and one process at a time runs each job."""
