package backup

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// DefaultMemory is how many bytes of objects all runs of a process hold at a time.
const DefaultMemory = 64 << 20

// budget is the memory that the objects under way may take, for all runs of a
// process together: limit × workers may ask for more than there is. Whoever waits
// for it holds none of it, so that somebody always goes on; the shelf, whose
// batches are held for longer, is a part of its own that nobody waits for.
type budget struct {
	size  int64
	flow  *semaphore.Weighted
	shelf *semaphore.Weighted
}

func newBudget(memory int64) *budget {
	shelf := memory / 4
	return &budget{size: memory - shelf, flow: semaphore.NewWeighted(memory - shelf), shelf: semaphore.NewWeighted(shelf)}
}

// acquire waits for n bytes, and returns how many they are: more than there are
// at all means all of them, so that one huge object passes, alone.
func (b *budget) acquire(ctx context.Context, n int64) (int64, error) {
	n = min(n, b.size)
	if err := b.flow.Acquire(ctx, n); err != nil {
		return 0, context.Cause(ctx)
	}
	return n, nil
}
