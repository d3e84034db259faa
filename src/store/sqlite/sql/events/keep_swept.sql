UPDATE last_told SET swept = (SELECT min(number) FROM events)
