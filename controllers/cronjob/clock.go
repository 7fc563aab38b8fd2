package cronjob

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"

	batchv1 "k8s.io/api/batch/v1"
)

const (
	// period is the interval at which the clocks are compared.
	period = time.Minute
	// tolerance is the difference that is not a jump.
	tolerance = time.Second
)

// clock compares the wall clock, which slots follow, with the monotonic clock, which timers follow.
// It sends an event for each CronJob when one of them has gained on the other.
type clock struct {
	now    func() time.Time
	client client.Reader
	jumps  chan handler.GenericEvent
}

// Start compares the clocks until ctx ends. It implements manager.Runnable.
func (c *clock) Start(ctx context.Context) error {
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		wall, began := c.now().Round(0), time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if gained := c.now().Round(0).Sub(wall) - time.Since(began); gained.Abs() < tolerance {
			continue
		}
		var all batchv1.CronJobList
		if err := c.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache has ended
		}
		for _, o := range owned.Pointers(all.Items) {
			select {
			case c.jumps <- handler.GenericEvent{Object: o}:
			case <-ctx.Done():
				return nil
			}
		}
	}
}
