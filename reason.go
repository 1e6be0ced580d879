package berth

// WaitReason says why a backup waits. The list is closed and the same for the
// API, events, views and metrics; where several hold, the first in this order
// is the one that counts.
type WaitReason string

const (
	// WaitNotBefore: its notBefore is in the future, or has come and the next dequeue
	// puts it into the queue.
	WaitNotBefore WaitReason = "NotBefore"
	// WaitBackOff: it lost its worker again and is tried again later; that time may
	// have come as with WaitNotBefore.
	WaitBackOff WaitReason = "BackOff"
	// WaitQueuePaused: somebody paused the cluster's queue.
	WaitQueuePaused WaitReason = "QueuePaused"
	// WaitNoWorker: no worker of the cluster has been heard of within its lease TTL, or
	// those that were take nothing more.
	WaitNoWorker WaitReason = "NoWorker"
	// WaitClusterUnreachable: what it claims depends on namespaces that nobody
	// named, and the cluster's API was silent for a minute.
	WaitClusterUnreachable WaitReason = "ClusterUnreachable"
	// WaitStorageUnavailable: its storage location cannot be reached.
	WaitStorageUnavailable WaitReason = "StorageUnavailable"
	// WaitScopeUnresolvable: it names a pattern and the cluster's namespaces are not known yet.
	WaitScopeUnresolvable WaitReason = "ScopeUnresolvable"
	// WaitRunningOverlap: a running backup holds a namespace that it needs.
	WaitRunningOverlap WaitReason = "RunningOverlap"
	// WaitEarlierQueuedOverlap: an earlier backup in the queue needs the same namespace.
	WaitEarlierQueuedOverlap WaitReason = "EarlierQueuedOverlap"
	// WaitNoFreeSlot: as many backups run as the cluster's limit allows, or as its
	// workers take with a cap of their own each.
	WaitNoFreeSlot WaitReason = "NoFreeSlot"
	// WaitDispatch: nothing is in its way, a place is free and a worker has room; the
	// next dequeue starts as many such ones, in the order of the queue, as there are
	// places.
	WaitDispatch WaitReason = "Dispatch"
)

// WaitReasons lists the reasons in the order in which they count.
func WaitReasons() []WaitReason {
	return []WaitReason{
		WaitNotBefore, WaitBackOff, WaitQueuePaused, WaitNoWorker, WaitClusterUnreachable,
		WaitStorageUnavailable, WaitScopeUnresolvable, WaitRunningOverlap,
		WaitEarlierQueuedOverlap, WaitNoFreeSlot, WaitDispatch,
	}
}
