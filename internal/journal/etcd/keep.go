package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// keep sees to it that there is a link, as long as a member answers. The journal is
// not down before it has looked for one for a while: members may be about to elect
// a leader.
func (j *Journal) keep(ctx context.Context) {
	var pause pause
	var lost time.Time
	for ctx.Err() == nil {
		l, cluster, err := j.connect(ctx)
		if err != nil {
			if ctx.Err() == nil && time.Since(lost) >= j.probeTimeout() && j.links.fail(err) {
				j.log.Error("no member of etcd answers", "error", err)
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

// watchOver returns why a link has to be given up.
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

// examine returns an error unless the member answers, and is of the cluster that
// the sink is the fold of.
func (j *Journal) examine(ctx context.Context, l *link) (cluster uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.probeTimeout())
	defer cancel()
	before := j.position.now()
	at, cluster, err := l.probe(ctx, j.values.markKey())
	if err != nil {
		return 0, err
	}
	if known := j.links.identity(); known != 0 && known != cluster {
		return 0, &unusableError{fmt.Sprintf("etcd has become another: its cluster is %x, was %x; restart the server", cluster, known)}
	}
	if at < before {
		return 0, &unusableError{fmt.Sprintf("etcd has gone back to revision %d from %d: its data has been replaced; restart the server", at, before)}
	}
	return cluster, nil
}

// connect asks all members at once and takes the one that answers first.
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

func (j *Journal) probeTimeout() time.Duration { return j.opts.RequestTimeout * 2 / 5 }
func (j *Journal) probeEvery() time.Duration   { return j.opts.RequestTimeout / 5 }

// pause is the time between attempts: it grows.
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
