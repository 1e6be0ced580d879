package backup

import (
	"context"
	"sync"
)

// block is what one worker of a pool does in one go: the related objects of an
// ItemBlock, or a batch of objects that nothing ties together.
type block interface {
	backUp(ctx context.Context, c *collector) error
}

// pool are the blocks of one running backup that are on their way to its
// workers. Its channel is bounded: whoever lists waits while they are behind.
type pool struct {
	blocks chan block

	mu sync.Mutex
	// open are blocks that were handed over and not ended yet; idle is closed
	// when there are none.
	open int
	idle chan struct{}
	done int
}

func newPool(workers int) *pool {
	idle := make(chan struct{})
	close(idle)
	return &pool{blocks: make(chan block, workers), idle: idle}
}

// submit hands a block over, or answers why ctx ended.
func (p *pool) submit(ctx context.Context, b block) error {
	p.mu.Lock()
	if p.open == 0 {
		p.idle = make(chan struct{})
	}
	p.open++
	p.mu.Unlock()
	select {
	case p.blocks <- b:
		return nil
	case <-ctx.Done():
		p.ended(false)
		return context.Cause(ctx)
	}
}

func (p *pool) ended(done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if done {
		p.done++
	}
	if p.open == 0 {
		close(p.idle)
	}
}

// drain waits until every block that was handed over has ended.
func (p *pool) drain(ctx context.Context) error {
	p.mu.Lock()
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// work backs blocks up until there are no more.
func (c *collector) work(ctx context.Context) error {
	for {
		select {
		case b, more := <-c.pool.blocks:
			if !more {
				return nil
			}
			if err := b.backUp(ctx, c); err != nil {
				return err
			}
			c.pool.ended(true)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Pool is what the pool of one running backup is doing.
type Pool struct {
	// Backup and Attempt say whose pool it is.
	Backup  string
	Attempt int
	// Workers is how many it has. BlocksOpen are on their way or being backed up,
	// BlocksDone are over.
	Workers, BlocksOpen, BlocksDone int
}

// Pools are those of the backups that are being taken now.
func (c *Cluster) Pools() []Pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pools []Pool
	for running := range c.running {
		pools = append(pools, running.shown())
	}
	return pools
}

// shown is the collector's pool as others see it.
func (c *collector) shown() Pool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return Pool{
		Backup: c.run.Name, Attempt: c.run.Attempt, Workers: c.workers,
		BlocksOpen: c.pool.open, BlocksDone: c.pool.done,
	}
}

// enter shows the collector's pool among those of the process until the function
// that it returns is called.
func (c *Cluster) enter(running *collector) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[running] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, running)
	}
}
