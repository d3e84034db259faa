"""Store files that earlier releases wrote, each with the agent that wrote it. Neither is ever changed."""
