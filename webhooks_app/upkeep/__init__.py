"""What is to be done now and then beside delivering: in every worker process, each chore by one of them at a time."""
