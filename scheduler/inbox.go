package scheduler

import "sync"

// An inbox has functions for the goroutine of a scheduler.
type inbox struct {
	mu     sync.Mutex
	calls  []func()
	filled chan struct{} // has a value if calls may not be empty
}

func newInbox() *inbox { return &inbox{filled: make(chan struct{}, 1)} }

// put adds a function.
func (b *inbox) put(call func()) {
	b.mu.Lock()
	b.calls = append(b.calls, call)
	b.mu.Unlock()
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// take removes and returns all functions.
func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = nil
	return calls
}
