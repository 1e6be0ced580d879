package db

import "maps"

// Statements are the embedded statements by name, for the test that prepares each.
func Statements() map[string]string { return maps.Clone(statements) }

// BeginCommitted begins a transaction as the store does.
const BeginCommitted = beginCommitted

// Gates is the number of dispatch gates.
const Gates = gates

// The lists' cursors, for the fuzzer.
var (
	EncodeCursor = encodeCursor
	DecodeCursor = decodeCursor
)

// Unguard takes away what keeps transactions on one queue apart: the gate and
// SERIALIZABLE.
func (s *Store) Unguard() { s.apart = apart{dequeue: beginCommitted} }
