DROP VIEW backup_rows;
DROP FUNCTION overlapping_ahead(bigint);
DROP FUNCTION queue_position(bigint);
DROP FUNCTION shared_names(int, int8multirange, boolean, int8multirange, boolean);
DROP FUNCTION claim_names(int8multirange);
DROP FUNCTION claim_ids(int8multirange);
DROP FUNCTION in_the_way(backups, backups);
DROP FUNCTION overlapping_predecessor(int, bigint, timestamptz, boolean, int8multirange);
DROP TABLE events;
DROP FUNCTION make_event_partitions(timestamptz, int);
DROP TABLE mirror_leaders, mirrors, mirror_outbox, progress, workers, leases, departures, claims, backups;
DROP FUNCTION backups_guard();
DROP FUNCTION claim_some(int, int[]);
DROP FUNCTION claim_everything(int);
DROP FUNCTION claim_key(int, int);
DROP TABLE storage_locations, namespaces, slots;
DROP SEQUENCE fences;
DROP TABLE dispatch_gate_0, dispatch_gate_1, dispatch_gate_2, dispatch_gate_3,
    dispatch_gate_4, dispatch_gate_5, dispatch_gate_6, dispatch_gate_7,
    dispatch_gate_8, dispatch_gate_9, dispatch_gate_10, dispatch_gate_11,
    dispatch_gate_12, dispatch_gate_13, dispatch_gate_14, dispatch_gate_15;
DROP TABLE clusters;
