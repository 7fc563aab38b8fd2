package bench

import (
	"os"
	"time"
)

// fsyncs appends 2 KB to a file in a directory and syncs it, n times, and returns the duration of
// each sync.
func fsyncs(dir string, n int) (durations, error) {
	f, err := os.CreateTemp(dir, "kapok-bench-fsync-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	took, data := make(durations, n), make([]byte, 2<<10)
	for i := range took {
		begin := time.Now()
		if _, err := f.Write(data); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took[i] = time.Since(begin)
	}
	return took, nil
}
