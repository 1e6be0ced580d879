package berth

// AnnotationPrefix starts every annotation of Berth's own.
const AnnotationPrefix = "berth-backup.io/"

// The keys on objects that Berth and the cluster share.
const (
	// AnnotationID holds the id of the row that an object mirrors; an object
	// that has it is Berth's own and never adopted.
	AnnotationID = AnnotationPrefix + "id"
	// AnnotationVersion holds the version of the row that was last mirrored.
	AnnotationVersion = AnnotationPrefix + "version"
	// AnnotationFence and AnnotationAttempt stand in an archive's
	// velero-backup.json: which attempt wrote it.
	AnnotationFence   = AnnotationPrefix + "fence"
	AnnotationAttempt = AnnotationPrefix + "attempt"
	// AnnotationSHA256Prefix + artefact holds the SHA-256 of that artefact.
	AnnotationSHA256Prefix = AnnotationPrefix + "sha256."

	// LabelExclude keeps an object or a namespace out of every backup when "true" (Velero's).
	LabelExclude = "velero.io/exclude-from-backup"
	// LabelSchedule holds the name of the schedule that a backup comes from (Velero's).
	LabelSchedule = "velero.io/schedule-name"
	// LabelStorageLocation holds the name of a backup's location (Velero's).
	LabelStorageLocation = "velero.io/storage-location"
)
