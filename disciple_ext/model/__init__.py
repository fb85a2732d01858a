"""What a program is written in. This code also runs inside the sandbox."""
