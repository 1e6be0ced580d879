-- Makes the event table's partitions of this month and of those to come.
SELECT make_event_partitions(clock_timestamp(), @months)::text
