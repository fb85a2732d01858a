"""What crosses the pipe: frames, requests, masks and events, and the host's checks of them."""
