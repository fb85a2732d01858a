"""The worker's side of the sandbox: the process that forks, and the follower behind the pipe."""
