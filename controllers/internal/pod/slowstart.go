package pod

import "sync"

// SlowStart calls create n times: once at first, and after each batch of calls that have all
// succeeded, twice as many at once. After a batch with an error it returns that error.
func SlowStart(n int, create func() error) error {
	for batch := min(1, n); batch > 0; batch = min(2*batch, n) {
		errs := make(chan error, batch)
		var all sync.WaitGroup
		for range batch {
			all.Go(func() {
				if err := create(); err != nil {
					errs <- err
				}
			})
		}
		all.Wait()
		select {
		case err := <-errs:
			return err
		default:
		}
		n -= batch
	}
	return nil
}
