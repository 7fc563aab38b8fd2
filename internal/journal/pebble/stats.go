package pebble

import "sync/atomic"

// Stats counts what a journal has done since it was opened.
type Stats struct {
	Commits  int64 // groups written, a synced write each
	Entries  int64 // in these groups
	Bytes    int64 // of these groups, as they went to the log
	Syncs    int64 // of all files: of the log, of tables, of lists
	Failures int64 // times that the files have failed
	Attempts int64 // made to come back
	Returns  int64 // times that the journal has come back since
}

type counters struct {
	commits, entries, bytes, syncs, failures, attempts, returns atomic.Int64
}

// Stats returns what the journal has done since it was opened.
func (j *Journal) Stats() Stats {
	c := &j.stats
	return Stats{
		Commits: c.commits.Load(), Entries: c.entries.Load(), Bytes: c.bytes.Load(),
		Syncs: c.syncs.Load(), Failures: c.failures.Load(), Attempts: c.attempts.Load(), Returns: c.returns.Load(),
	}
}

// DiskUsage returns the size of the files of the store in bytes, those to be deleted included; 0
// once the journal is closed.
func (j *Journal) DiskUsage() uint64 {
	s, release, err := j.use()
	if err != nil {
		return 0
	}
	defer release()
	return s.db.Metrics().DiskSpaceUsage()
}
