package berth

// WaitReason says why a backup waits. The list is closed and the same for the
// API, events, views and metrics; where several hold, the first in this order
// is the one that counts.
type WaitReason string

const (
	// WaitNoWorker: no worker of the cluster has been heard of within its lease TTL.
	WaitNoWorker WaitReason = "NoWorker"
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
		WaitNoWorker, WaitScopeUnresolvable, WaitRunningOverlap,
		WaitEarlierQueuedOverlap, WaitNoFreeSlot, WaitDispatch,
	}
}
