-- Everyone in the queue is looked at again, from its head.
INSERT INTO relooks (cluster_id, order_key, seq, everyone) VALUES (@cluster_id, '-infinity', 0, true)
ON CONFLICT (cluster_id) DO UPDATE SET order_key = excluded.order_key, seq = excluded.seq, everyone = true
