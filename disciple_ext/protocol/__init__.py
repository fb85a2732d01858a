"""All that a program and a follower say to each other, and the data that it is said in."""
