"""Health endpoints for load balancers, Kubernetes and monitors."""
