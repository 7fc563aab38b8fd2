package reaper

import (
	"sync"
	"sync/atomic"
)

// writers is the number of writes that wait for the journal together, and so share its flushes.
const writers = 32

// together calls do with 0 to n-1, in up to as many goroutines as there are writers, and waits for
// them.
func together(n int, do func(n int)) {
	if n == 1 {
		do(0)
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, writers) {
		group.Go(func() {
			for {
				at := int(next.Add(1)) - 1
				if at >= n {
					return
				}
				do(at)
			}
		})
	}
	group.Wait()
}
