SELECT p.thread, p.namespace, p.id, v.channel, v.version, v.type, v.value
FROM page p
     CROSS JOIN LATERAL unnest(p.channels, p.versions) AS n(channel, version)
     JOIN hitl.graph_values v
          ON v.thread = p.thread AND v.namespace = p.namespace AND v.channel = n.channel AND v.version = n.version
ORDER BY v.channel
