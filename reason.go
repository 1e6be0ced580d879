package berth

// WaitReason says why a backup waits. The list is closed and the same for the
// API, events, views and metrics; where several hold, the first in this order
// is the one that counts.
type WaitReason string

const (
	// WaitNotBefore: the time before which it is not to start has not come.
	WaitNotBefore WaitReason = "NotBefore"
	// WaitBackOff: its last attempt was lost, and the next one waits a while.
	WaitBackOff WaitReason = "BackOff"
	// WaitQueuePaused: a person paused the cluster's queue.
	WaitQueuePaused WaitReason = "QueuePaused"
	// WaitNoWorker: no worker of the cluster has been heard of within its lease TTL.
	WaitNoWorker WaitReason = "NoWorker"
	// WaitClusterUnreachable: the cluster's namespaces were known once and are not
	// heard of any more; only patterns and everything-but wait for that.
	WaitClusterUnreachable WaitReason = "ClusterUnreachable"
	// WaitStorageUnavailable: its storage location cannot be reached.
	WaitStorageUnavailable WaitReason = "StorageUnavailable"
	// WaitScopeUnresolvable: it names a pattern and the cluster's namespaces are not known yet.
	WaitScopeUnresolvable WaitReason = "ScopeUnresolvable"
	// WaitRunningOverlap: a running backup holds a namespace that it needs.
	WaitRunningOverlap WaitReason = "RunningOverlap"
	// WaitEarlierQueuedOverlap: an earlier backup in the queue needs the same namespace.
	WaitEarlierQueuedOverlap WaitReason = "EarlierQueuedOverlap"
	// WaitNoFreeSlot: as many backups run as the cluster's limit allows.
	WaitNoFreeSlot WaitReason = "NoFreeSlot"
	// WaitDispatch: nothing is in its way; the next dequeue starts it.
	WaitDispatch WaitReason = "Dispatch"
)

// WaitReasons lists the reasons in the order in which they count.
func WaitReasons() []WaitReason {
	return []WaitReason{
		WaitNotBefore, WaitBackOff, WaitQueuePaused, WaitNoWorker, WaitClusterUnreachable,
		WaitStorageUnavailable, WaitScopeUnresolvable, WaitRunningOverlap, WaitEarlierQueuedOverlap,
		WaitNoFreeSlot, WaitDispatch,
	}
}
