-- What is told from now on has numbers above all that was told. Servers that stand by hear of it by access_version.
UPDATE hitl.meta
SET id = $1, events_swept = $3, access_version = access_version + 1,
    event_base = (greatest($2, (SELECT max(number) FROM hitl.deeds), (SELECT max(number) FROM hitl.events),
                           (SELECT max(event) FROM hitl.journal)) | 4095) + 1
