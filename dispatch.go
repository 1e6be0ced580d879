package berth

import "time"

// DispatchRequest asks a cluster's queue for work on behalf of one worker.
type DispatchRequest struct {
	Cluster string
	Worker  string
	// Want is how many backups the worker has room for. With 0 nothing is
	// admitted, but waiting backups still learn what they wait for.
	Want int
	// LeaseTTL is how long the worker may be silent before another may take
	// its backups.
	LeaseTTL time.Duration
}

// Heartbeat is what a worker says of itself from time to time.
type Heartbeat struct {
	Cluster string
	Worker  string
	// MaxBackups is how many backups it runs at once at most; nil: any number; 0:
	// it takes nothing more.
	MaxBackups *int
	// LeaseTTL is how long it may be silent from now on.
	LeaseTTL time.Duration
	// Held are the runs that it goes on with.
	Held []Run
}

// Dispatched is what a dequeue did.
type Dispatched struct {
	Runs       []Run
	PassedOver []PassedOver
	// MorePassedOver counts those that PassedOver leaves out.
	MorePassedOver int
}

// PassedOver is a waiting backup that found something in its way.
type PassedOver struct {
	Name string
	// Witness is the name of the backup in the way, Shared what both need.
	Witness string
	Shared  []string
}
