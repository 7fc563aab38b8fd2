package pebble

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
)

// logger passes pebble's messages on. Informational ones have the level Debug.
type logger struct {
	log  *slog.Logger
	disk *disk
}

func (l logger) Infof(format string, args ...any) {
	if ctx := context.Background(); l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "journal store: "+fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) {
	l.log.Error("journal store", "error", fmt.Sprintf(format, args...))
}

// Fatalf returns. Pebble does not expect that but tolerates it: from here on nothing it does can
// reach the files.
func (l logger) Fatalf(format string, args ...any) {
	l.disk.fail(fmt.Errorf(format, args...))
}

// listener receives background events. A store that cannot flush, compact or read its own files
// accepts no more writes.
func listener(log *slog.Logger, disk *disk) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) { disk.fail(err) },
		DataCorruption:  func(info pebble.DataCorruptionInfo) { disk.fail(info.Details) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.Warn("journal is slow: writes wait for the disk", "reason", info.Reason)
		},
		LowDiskSpace: func(info pebble.LowDiskSpaceInfo) {
			log.Warn("journal is running out of disk space", "available", info.AvailBytes, "total", info.TotalBytes)
		},
	}
}

// scheduler runs one compaction at a time. Pebble's own scheduler polls ten times a second whether
// more may run; here the answer never changes, and an idle store must not use CPU. No compaction
// starts on frozen files: its result could not be stored.
type scheduler struct {
	*pebble.ConcurrencyLimitScheduler
	disk *disk
}

func newScheduler(d *disk) *scheduler {
	return &scheduler{pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(), d}
}

// TrySchedule implements [pebble.CompactionScheduler].
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if s.disk.err() != nil {
		return false, nil
	}
	return s.ConcurrencyLimitScheduler.TrySchedule()
}
