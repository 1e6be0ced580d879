ALTER TABLE progress DROP COLUMN hooks_attempted, DROP COLUMN hooks_failed;
DROP TABLE frozen_pods;
