"""What several test files share: agents, servers, requests."""
