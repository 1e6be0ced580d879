package berth

// RunKey says which runs are alike.
type RunKey struct{ Schedule, Namespaces string }
