"""What is to be done now and then beside delivering: in every worker process, each job by one of them at a time."""
