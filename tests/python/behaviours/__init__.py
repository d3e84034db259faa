"""What a person's decision means, asked of every face of the package in its own words."""
