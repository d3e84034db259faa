SELECT id FROM store
