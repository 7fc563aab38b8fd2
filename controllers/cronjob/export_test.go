package cronjob

import "time"

// Variables and types for the tests of this package from outside.
var (
	AddWithClock = add
	JobName      = jobName
	Tables       = tables
)

// A Table is a schedule as the times that it allows.
type Table = table

// Between and CronJob are methods of a table.
var (
	Between = table.between
	CronJob = table.cronJob
)

// Schedule returns the text of the schedule.
func (s table) Schedule() string { return s.text }

// Often reports whether there are too many slots for a test of months.
func (s table) Often() bool { return len(s.between(time.Unix(0, 0), time.Unix(86400, 0))) > 4 }

// Has reports whether a time is a slot of the schedule.
func (s table) Has(t time.Time) bool {
	return len(s.between(t.Add(-time.Second), t)) == 1
}
