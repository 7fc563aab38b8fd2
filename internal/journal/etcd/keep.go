package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// keep maintains a link while any member answers. It marks the journal as down only after it has
// looked for a member for a while: the members may be electing a leader.
func (j *Journal) keep(ctx context.Context) {
	var pause pause
	var lost time.Time
	for ctx.Err() == nil {
		l, cluster, err := j.connect(ctx)
		if err != nil {
			if ctx.Err() == nil && time.Since(lost) >= j.probeTimeout() && j.links.fail(err) {
				j.log.Error("no etcd member responds", "error", err)
			}
			pause.wait(ctx)
			continue
		}
		j.links.set(l, cluster)
		j.log.Info("connected to etcd", "endpoint", l.endpoint)
		pause.reset()
		err = j.watchOver(ctx, l)
		j.links.clear()
		lost = time.Now()
		l.client.Close()
		if ctx.Err() == nil {
			j.log.Warn("connection to etcd lost", "endpoint", l.endpoint, "error", err)
		}
	}
}

// watchOver probes a link and returns the reason why it must be dropped.
func (j *Journal) watchOver(ctx context.Context, l *link) error {
	ticker := time.NewTicker(j.probeEvery())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-l.suspected:
		}
		if _, err := j.examine(ctx, l); err != nil {
			return err
		}
		j.lookForSpace(ctx, l)
	}
}

// examine returns an error unless the member answers and belongs to the cluster that the sink is
// the fold of.
func (j *Journal) examine(ctx context.Context, l *link) (cluster uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.probeTimeout())
	defer cancel()
	before := j.position.now()
	at, cluster, err := l.probe(ctx, j.values.markKey())
	if err != nil {
		return 0, err
	}
	if known := j.links.identity(); known != 0 && known != cluster {
		return 0, &unusableError{fmt.Sprintf("the cluster ID of etcd changed to %x from %x: restart the server to load the data of the new cluster", cluster, known)}
	}
	if at < before {
		return 0, &unusableError{fmt.Sprintf("the revision of etcd went back to %d from %d, its data has been replaced: restart the server", at, before)}
	}
	return cluster, nil
}

// connect asks all members concurrently and takes the first that answers.
func (j *Journal) connect(ctx context.Context) (*link, uint64, error) {
	type answer struct {
		*link
		cluster uint64
		err     error
	}
	race, end := context.WithCancel(ctx)
	defer end()
	answers := make(chan answer)
	for _, endpoint := range j.opts.Endpoints {
		j.running.Go(func() {
			a := answer{}
			if a.link, a.err = j.dial(ctx, endpoint); a.err == nil {
				a.cluster, a.err = j.examine(race, a.link)
			}
			if a.err == nil {
				a.err = a.checkVersion(race)
			}
			if a.err != nil {
				a.err = fmt.Errorf("%s: %w", endpoint, a.err)
			}
			select {
			case answers <- a:
				if a.err == nil {
					return
				}
			case <-race.Done():
			}
			if a.link != nil {
				a.client.Close()
			}
		})
	}
	var errs []error
	for range j.opts.Endpoints {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.link, a.cluster, nil
			}
			errs = append(errs, a.err)
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	return nil, 0, errors.Join(errs...)
}

const (
	retryMin = 10 * time.Millisecond
	retryMax = time.Second
)

// patience returns how long a call continues while no member answers: long enough for an election,
// and for a disk that takes a second to sync.
func (j *Journal) patience() time.Duration { return j.opts.RequestTimeout * 2 / 5 }

// If a transaction takes longer than suspectAfter, the link is probed, and the member has
// probeTimeout to answer. The sum of both is less than patience.
func (j *Journal) suspectAfter() time.Duration { return j.opts.RequestTimeout / 20 }
func (j *Journal) probeTimeout() time.Duration { return j.opts.RequestTimeout * 3 / 10 }
func (j *Journal) probeEvery() time.Duration   { return j.opts.RequestTimeout / 5 }

// pause is the backoff between attempts.
type pause struct{ next time.Duration }

func (p *pause) reset() { p.next = 0 }

func (p *pause) wait(ctx context.Context) {
	p.next = min(max(2*p.next, retryMin), retryMax)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
